var x = 'global'; console.log(eval('1 + 1'), (0, eval)('typeof x'), new Function('a', 'b', 'return a * b')(6, 7));
const f = function named(a, b = 2, ...c) {}; console.log(f.name, f.length, f.toString(), (() => {}).name, (class Q {}).name);
console.log(Math.max.apply(null, [1, 3]), f.bind(null, 1).name, (function () { return typeof this; }).call(5), (function () { 'use strict'; return typeof this; }).call(5));
console.log(new Function().toString(), Object.getOwnPropertyNames(function () {}).sort().join());
const curry = (fn) => function next(...a) { return a.length >= fn.length ? fn(...a) : (...b) => next(...a, ...b); }; console.log(curry((a, b, c) => a + b + c)(1)(2)(3));
console.log(typeof globalThis, globalThis === global, typeof window, typeof require, typeof module, typeof exports, typeof __filename);
with ({ inside: 1 }) console.log(inside);
