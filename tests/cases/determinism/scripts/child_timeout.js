const { spawnSync, spawn } = require('node:child_process');
const { error, signal, status } = spawnSync('sleep', ['1000'], { timeout: 5000 });
console.log(error?.code, signal, status, Math.round(performance.now() / 1000));
const child = spawn('bash', ['-c', 'while :; do echo $SECONDS; sleep 1; done']);
child.stdout.on('data', (data) => String(data).trim() === '3' && child.kill());
child.on('exit', (code, signal) => console.log(code, signal, Math.round(performance.now() / 1000)));
