// A message of many pieces between a program and one that it forked, among other data of stdout.
const { fork } = require('child_process');
if (process.argv[2] === 'child') {
  process.on('message', ({ text }) => {
    process.stdout.write('between\n');
    process.send({ length: text.length, text }, () => process.disconnect());
  });
} else {
  const text = 'abcdefgh'.repeat(1 << 20);
  const child = fork(__filename, ['child'], { stdio: ['pipe', 'pipe', 'inherit', 'ipc'] });
  child.stdout.on('data', (chunk) => console.log('stdout', JSON.stringify(chunk.toString())));
  child.on('message', (message) => console.log(message.length, message.text === text)).on('exit', (code) => console.log('exit', code));
  child.send({ text });
}
