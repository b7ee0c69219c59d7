// Input in the pieces in which it arrives.
const readline = require('node:readline');
let pieces = 0;
process.stdin.on('data', () => pieces++);
const lines = readline.createInterface({ input: process.stdin });
let count = 0;
lines.on('line', (line) => console.log(++count, line.length));
lines.on('close', () => console.log('pieces', pieces, performance.now()));
