// run: --import ./first.mjs --import=./second.cjs import_option.mjs
console.log('main', globalThis.first, globalThis.second);
//// file: first.mjs
await new Promise((resolve) => setTimeout(resolve, 5));
globalThis.first = 1;
console.log('first');
//// file: second.cjs
globalThis.second = globalThis.first + 1;
console.log('second');
