const readline = require('readline');
const { PassThrough } = require('stream');
const input = new PassThrough();
readline.emitKeypressEvents(input);
input.on('keypress', (text, key) => console.log(JSON.stringify(text), JSON.stringify(key)));
for (const sequence of ['a', 'B', '.', '\r', '\n', '\t', '\x1ba', '\x01', '\x7f', '\x1b[A', '\x1b[1;5C', '\x1bOP', '\x1b[3~', '\x1b[15;2~', '\x1b[Z', '\x1b[200~', '\x1b[[5~', 'é', '😀']) input.write(sequence);
