import { missing } from './lib.mjs'; console.log(missing);
//// file: lib.mjs
export const present = 1;
