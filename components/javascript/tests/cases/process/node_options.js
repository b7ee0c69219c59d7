// run: main.js
// env: 'NODE_OPTIONS=--require "./with space.js" --no-warnings'
console.log('never named');
//// file: main.js
console.log('main', process.execArgv.length, globalThis.before);
//// file: with space.js
globalThis.before = true;
