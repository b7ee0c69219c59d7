// Replaces what our own layer may read or call by accident: one group of things in each run, by the number in the third argument.
const attemptAll = require('./attempts.js');
const { defineProperty, getOwnPropertyDescriptor } = Object;
const { apply, deleteProperty } = Reflect;

// Properties that options and results have, with the values that an attacker wants there.
const POISON = {
    shell: '/bin/sh', cwd: '/', env: { PATH: '/evil' }, argv: ['sh', '-c', 'echo started'], argv0: 'sh', file: 'sh', path: '/workspace/private/key.txt',
    stdio: 'inherit', child: 1, pid: 1, flag: 'r+', mode: 0o777, recursive: true, code: 0, errno: 0, status: 0, builtin: 'fs',
    main: '/workspace/private/key.txt', exports: '/workspace/private/key.txt', type: 'module', hostname: '127.0.0.1', method: 'CONNECT', allowed: true,
    granted: true, detached: true, uid: 0, encoding: 'latin1',
};
const SETTERS = ['argv', 'env', 'child', 'stdout', 'exitCode', 'message', 'get', 'set', 'value', '0', '1', 'headers', 'url'];
// Methods that say yes, or give something else.
const LIES = [
    [Array.prototype, ['map', 'slice', 'concat', 'filter', 'join']], [Array.prototype, ['includes', 'indexOf', 'push', 'some', 'every', 'find', 'shift']],
    [Array.prototype, [Symbol.iterator]], [String.prototype, ['startsWith', 'endsWith', 'includes', 'split', 'replace']],
    [String.prototype, ['slice', 'toLowerCase', 'trim', 'indexOf', 'charCodeAt', 'match']], [RegExp.prototype, ['exec', 'test', Symbol.replace, Symbol.split]],
    [Map.prototype, ['get', 'has', 'set']], [Set.prototype, ['has', 'add']], [WeakMap.prototype, ['get', 'has']],
    [Promise.prototype, ['then', 'catch', 'finally']], [Promise, ['resolve', 'all']], [Function.prototype, ['call', 'apply', 'bind', Symbol.hasInstance]],
    [JSON, ['parse', 'stringify']], [Object, ['keys', 'entries', 'assign', 'defineProperty', 'create', 'hasOwn', 'freeze']],
    [Reflect, ['apply', 'get', 'has', 'construct']], [Number, ['isInteger', 'isNaN']], [Array, ['isArray', 'from']], [Math, ['min', 'max', 'floor']],
    [Uint8Array.prototype, ['set', 'subarray', 'slice']], [Buffer, ['from', 'isBuffer', 'concat', 'alloc']], [Error, ['captureStackTrace']],
    [Object.prototype, ['toString', 'hasOwnProperty', 'valueOf']], [globalThis, ['String', 'Number', 'Error', 'URL', 'Uint8Array', 'queueMicrotask', 'setTimeout']],
    [globalThis, ['__skillhost_require', '__skillhost_defer', '__skillhost_place']],
];
const ANSWERS = [() => true, () => ['sh', '-c', 'echo started'], () => '/workspace/private/key.txt', () => undefined];

function poison() {
    for (const name in POISON) {
        defineProperty(Object.prototype, name, { value: POISON[name], writable: true, configurable: true });
        attemptAll('Object.prototype.' + name);
        deleteProperty(Object.prototype, name);
    }
}

// Setters that take what the layer assigns.
function setters() {
    for (const object of [Object.prototype, Array.prototype]) {
        for (const name of SETTERS) {
            const before = getOwnPropertyDescriptor(object, name);
            defineProperty(object, name, { set(value) {}, get() { return 'sh'; }, configurable: true });
            attemptAll('a setter of ' + name);
            if (before) defineProperty(object, name, before);
            else deleteProperty(object, name);
        }
    }
}

function lies([object, names]) {
    for (const name of names) {
        const before = getOwnPropertyDescriptor(object, name);
        for (let at = 0; at < ANSWERS.length; at++) {
            defineProperty(object, name, { value: ANSWERS[at], writable: true, configurable: true });
            try {
                attemptAll('a lie');
            } catch {
                // The lie reached the attempts themselves.
            }
            if (before) defineProperty(object, name, before);
            else deleteProperty(object, name);
        }
    }
}

// From here on, whatever says no says yes.
function all() {
    for (const [object, names] of LIES) {
        if (object === Reflect || object === Function.prototype || object === globalThis) continue;
        for (const name of names) {
            const method = object[name];
            const lie = function (...args) {
                const result = apply(method, this, args);
                return result === false ? true : result;
            };
            defineProperty(object, name, { value: lie, writable: true, configurable: true });
        }
    }
    for (const name in POISON) defineProperty(Object.prototype, name, { value: POISON[name], writable: true, configurable: true });
    attemptAll('all at once');
}

const GROUPS = [poison, setters, all, ...LIES.map((group) => () => lies(group))];
const group = GROUPS[process.argv[4]];
if (group) group();
else require('node:fs').writeSync(1, 'no such group\n');
