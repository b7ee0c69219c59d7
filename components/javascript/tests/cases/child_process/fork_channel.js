// What both ends of the channel of a forked program see.
const { fork } = require('child_process');
const child = fork('./worker.js', ['one'], { silent: true, serialization: 'advanced' });
let output = '';
child.stdout.setEncoding('utf8').on('data', (text) => { output += text; });
console.log(typeof child.send, child.connected, child.stdin !== null);
child.on('message', (message) => {
  console.log('parent', message);
  if (message.ready) child.send({ map: new Map([['a', 1]]), bytes: new Uint8Array([1, 2]) }, (error) => console.log('sent', error));
});
child.on('disconnect', () => console.log('disconnected', child.connected));
child.on('close', (code, signal) => {
  console.log('close', code, signal, JSON.stringify(output));
  child.on('error', (error) => console.log(error.code));
  console.log(child.send('late'));
});
try { child.send(undefined); } catch (error) { console.log(error.code); }
try { child.send(() => {}); } catch (error) { console.log(error.code); }
child.stdin.end('typed');
//// file: worker.js
console.log('to stdout', process.argv[2], typeof process.channel);
process.stdin.setEncoding('utf8').on('data', (text) => console.log('read', text));
process.on('disconnect', () => console.log('worker disconnected', process.connected));
process.on('message', (message) => {
  process.send({ got: message.map instanceof Map, bytes: message.bytes.length });
  process.disconnect();
});
process.send({ ready: true });
