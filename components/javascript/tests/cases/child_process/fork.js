const { fork } = require('child_process'); const c = fork('./worker.js', ['arg'], { silent: false }); c.on('message', (m) => { console.log('parent got', m); if (m.ready) c.send({ work: [1, 2, 3] }); }); c.on('exit', (code) => console.log('exit', code));
//// file: worker.js
process.on('message', (m) => { process.send({ sum: m.work.reduce((a, b) => a + b) }); process.disconnect(); }); process.send({ ready: true, argv: process.argv.slice(2) });
