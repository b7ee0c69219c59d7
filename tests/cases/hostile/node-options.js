// Options and variables that load files into a node. What they load has the grants of the run, and the host checks commands as before.
process.env.ALLOWED = 'node';
const attemptAll = require('./attempts.js');
const { spawnSync } = require('node:child_process');
const { writeSync } = require('node:fs');
const [, , outside, url] = process.argv;

const OPTIONS = ['--require=/workspace/evil.js', '--import=/workspace/evil.js', '-r /workspace/evil.js', '--eval=1', '--inspect-brk', '--experimental-permission', '--allow-child-process', '--no-experimental-permission', '--loader=/workspace/evil.js', '--title=x'];
for (const options of OPTIONS) {
    process.env.NODE_OPTIONS = options;
    attemptAll(`NODE_OPTIONS ${options}`);
    for (const [words, env] of [
        [['/skill/scripts/child.js', outside, url], { NODE_OPTIONS: options }],
        [[...options.split(' '), '/skill/scripts/child.js', outside, url], {}],
        [['/skill/scripts/child.js', outside, url], { NODE_PATH: `${outside}/node_modules:/workspace`, NODE_REPL_EXTERNAL_MODULE: '/workspace/evil.js', LD_PRELOAD: '/workspace/evil.so', BASH_ENV: '/workspace/evil.sh' }],
    ]) {
        const done = spawnSync('node', words, { env: { ...process.env, ...env } });
        if (done.stdout) writeSync(1, done.stdout.toString());
    }
}
