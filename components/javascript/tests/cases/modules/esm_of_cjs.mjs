import def, { named, other } from './lib.cjs'; import * as ns from './lib.cjs'; import fn from './fn.cjs'; import { default as d2 } from './babel.cjs'; import bab from './babel.cjs';
console.log(def, named, other, Object.keys(ns).sort(), fn(), d2 === bab, bab);
//// file: lib.cjs
exports.named = 1; exports.other = function () { return 2; }; module.exports.third = 3;
//// file: fn.cjs
module.exports = () => 'called';
//// file: babel.cjs
Object.defineProperty(exports, '__esModule', { value: true }); exports.default = 'babel default'; exports.x = 1;
