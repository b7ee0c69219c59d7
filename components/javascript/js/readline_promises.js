// node:readline/promises.

import { promises } from 'node:readline';

export const { Interface, Readline, createInterface } = promises;
export default promises;
