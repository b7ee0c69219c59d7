// stdin: "first\nsecond line\n\nlast without newline"
const readline = require('readline'); const rl = readline.createInterface({ input: process.stdin }); let n = 0; rl.on('line', (line) => console.log(++n, JSON.stringify(line))).on('close', () => console.log('closed after', n));
