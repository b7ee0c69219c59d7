// What every attack tries, whatever it has changed before. Each line `got ...` names something that it should not have got. The arguments are
// the host's folder around the sandbox and the URL of a server. What an attack replaces is kept from here first.
const fs = require('node:fs');
const childProcess = require('node:child_process');
const https = require('node:http');
const { writeSync } = fs;
const { apply } = Reflect;
const { includes } = String.prototype;
const [, , outside, url] = process.argv;
// What the run may start is no attempt.
const own = process.env.ALLOWED === 'node';
const PROGRAMS = [
    ['sh', ['-c', 'echo started']], ['/bin/sh', ['-c', 'echo started']], ['python3', ['-c', 'print("started")']],
    ...(own ? [] : [['node', ['-p', '"started"']], ['npx', ['tsx', 'started.ts']], ['npm', ['exec', 'started']]]),
];
const PATHS = [
    `${outside}/outside/secret.txt`, '/workspace/../outside/secret.txt', '/workspace/link-dir/secret.txt', '/workspace/link-absolute', '/workspace/private/key.txt',
];
const PLACES = ['/skill/new.txt', '/workspace/new.txt', '/new.txt', `${outside}/outside/new.txt`, '/usr/lib/node_modules/new.js'];
let count = 0;

function attempt(name, action) {
    count++;
    try {
        const value = action();
        // Replaced methods return anything; only these come from outside.
        if (typeof value === 'string' && (apply(includes, value, ['started']) || apply(includes, value, ['a secret']))) writeSync(1, 'got ' + name + ': ' + value + '\n');
    } catch {
        // Denied.
    }
}

// Starts programs that no entry allows, reads files of the host and of no grant, writes to all places, and sends requests.
module.exports = function attemptAll(name) {
    for (let at = 0; at < PROGRAMS.length; at++) {
        const file = PROGRAMS[at][0], args = PROGRAMS[at][1];
        attempt(name + ': spawnSync ' + file, () => '' + childProcess.spawnSync(file, args).stdout);
        attempt(name + ': execFileSync ' + file, () => '' + childProcess.execFileSync(file, args));
    }
    attempt(name + ': execSync', () => '' + childProcess.execSync('echo started'));
    attempt(name + ': spawn', () => void childProcess.spawn('sh', ['-c', 'echo got a program'], { stdio: 'inherit' }).on('error', () => {}));
    if (!own) attempt(name + ': fork', () => void childProcess.fork(__filename).on('error', () => {}));
    for (let at = 0; at < PATHS.length; at++) {
        attempt(name + ': read ' + PATHS[at], () => fs.readFileSync(PATHS[at], 'latin1'));
        attempt(name + ': require ' + PATHS[at], () => '' + require(PATHS[at]));
    }
    for (let at = 0; at < PLACES.length; at++) attempt(name + ': write ' + PLACES[at], () => fs.writeFileSync(PLACES[at], 'x'));
    attempt(name + ': fetch', () => void fetch(url).catch(() => {}));
    attempt(name + ': http', () => void https.get(url).on('error', () => {}));
};

process.on('exit', () => writeSync(1, count + ' attempts\n'));
process.on('uncaughtException', () => {});
process.on('unhandledRejection', () => {});
