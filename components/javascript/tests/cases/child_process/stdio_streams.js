// Streams as `stdio` are written to without losing data.
const { spawn } = require('child_process'), fs = require('fs');
const out = fs.createWriteStream('out.txt');
out.on('open', () => {
  const child = spawn('sh', ['-c', 'for i in 1 2 3; do echo line $i; done; echo bad >&2'], { stdio: ['ignore', out, 'pipe'] });
  child.stderr.on('data', (data) => console.log(String(data).trim()));
  child.on('close', (code) => {
    console.log(code, child.stdout);
    out.end(() => console.log(fs.readFileSync('out.txt', 'utf8')));
  });
});
