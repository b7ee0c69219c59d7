// node:timers.

import { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } from 'internal:timers';
import promises from 'node:timers/promises';

export { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
export default { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate, promises };
