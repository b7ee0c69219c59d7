// Names of modules that lead out of the skill and its mounts. The module outside prints a line if it runs.
const attemptAll = require('./attempts.js');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');
const { writeSync } = require('node:fs');
const outside = process.argv[2];

const NAMES = [
    '../../..', '../../../..', '../../../outside/evil.js', '../../../../../../../../outside/evil.js', `${outside}/outside/evil.js`,
    `file://${outside}/outside/evil.js`, pathToFileURL(`${outside}/outside/evil.js`).href, `file:${outside}/outside/evil.js`,
    `file://localhost${outside}/outside/evil.js`, 'file:///workspace/..%2f..%2foutside/evil.js', './%2e%2e/%2e%2e/outside/evil.js',
    '/workspace/link-dir/evil.js', '/workspace/link-relative', '/workspace/in/link-up/outside/evil.js', '/workspace/link-root/etc/hostname',
    '/proc/self/cwd', '/proc/self/root/etc/hostname', '/dev/fd/0', 'evil', 'evil/index.js', '@evil/package', './.', './..', '..', '.',
    './link.js', 'node_modules/evil', '/node_modules/evil', '../node_modules/evil', `${outside}/node_modules/evil`, '#inside', 'main-outside', 'exports-outside',
    'exports-outside/deep', 'link-outside', './x.js\0.json', '\0', ' ', '//etc/hostname', '\\\\host\\share', 'C:\\evil.js', 'http://127.0.0.1/evil.js',
    'https://127.0.0.1/evil.js', 'node:../evil', 'node:evil', 'data:text/javascript,import "file:///outside/evil.js"',
];
const REQUIRES = [require, createRequire('/workspace/'), createRequire('/skill/scripts/x.js'), createRequire(`${outside}/outside/x.js`), createRequire('/')];

(async () => {
    for (const name of NAMES) {
        for (const find of REQUIRES) {
            try {
                find(name);
            } catch {
                // Not found.
            }
            try {
                const found = find.resolve(name);
                if (found.includes('outside')) writeSync(1, `got ${name}: ${found}\n`);
            } catch {
                // Not found.
            }
        }
        await import(name).catch(() => {});
        await import(name, { with: { type: 'json' } }).catch(() => {});
    }
    attemptAll('after the imports');
})();
