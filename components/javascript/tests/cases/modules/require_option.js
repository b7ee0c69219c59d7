// run: --require ./first.js main2.js
//// file: first.js
globalThis.first = 'preloaded';
//// file: main2.js
console.log(globalThis.first);
