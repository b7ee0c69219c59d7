import { absent } from './lib.cjs'; console.log(absent);
//// file: lib.cjs
module.exports = { present: 1 };
