// Programs that run at the same time, and their output as it arrives.
const { spawn, exec, execFileSync } = require('node:child_process');
for (const [program, ...args] of [['bash', '-c', 'echo $RANDOM; sleep 2; date +%s%N'], ['python3', '-c', 'import random, time; print(random.random()); time.sleep(1); print(time.time_ns())'], ['node', '-e', 'console.log(Math.random()); setTimeout(() => console.log(Date.now()), 1500)']]) {
    const child = spawn(program, args);
    child.stdout.on('data', (data) => console.log(program, child.pid, String(data).trim()));
    child.on('close', (code) => console.log(program, 'ended with', code, performance.now()));
}
exec('cat | sort | uniq -c', (error, stdout) => console.log(stdout)).stdin.end('b\na\nb\n');
console.log(execFileSync('node', ['-p', 'process.pid + Math.random()']).toString());
