// run: -r ./setup.js --unhandled-rejections warn --title named --import=./module.mjs main.js
console.log('never run');
//// file: setup.js
globalThis.before = process.argv[1];
//// file: module.mjs
console.log('module');
//// file: main.js
const { fork } = require('child_process');
if (process.argv[2] === 'child') {
    console.log('child', process.argv.slice(2), process.execArgv, typeof before, process.title);
} else {
    console.log(process.execArgv, process.title);
    process.on('warning', (warning) => console.log(warning.name, warning.message.split('\n')[0]));
    process.on('exit', () => console.log('exit'));
    fork(__filename, ['child']);
    Promise.reject(new Error('not handled'));
}
