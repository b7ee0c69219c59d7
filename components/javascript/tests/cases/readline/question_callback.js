// stdin: "yes\n"
const rl = require('readline').createInterface({ input: process.stdin, output: process.stdout }); rl.question('Continue? ', (answer) => { console.log('got', answer); rl.close(); }); rl.on('close', () => console.log('bye'));
