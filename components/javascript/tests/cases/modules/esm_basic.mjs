import def, { named, counter, increment as inc } from './lib.mjs';
import * as ns from './lib.mjs';
import fs, { readFileSync, existsSync } from 'node:fs';
import path from 'path';
console.log(def, named, counter); inc(); console.log(counter, ns.counter, ns, Object.keys(ns));
console.log(fs.readFileSync === readFileSync, existsSync('lib.mjs'), path.sep, typeof require, typeof module, typeof __filename, this);
try { counter = 5; } catch (e) { console.log(e.name, e.message); }
console.log(ns[Symbol.toStringTag], Object.isFrozen(ns), Object.isSealed(ns), 'default' in ns);
//// file: lib.mjs
export default 'default value'; export const named = 'named'; export let counter = 0; export function increment() { counter++; }
