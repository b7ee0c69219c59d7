// Runs one test of test262 in this program: test262.cjs SUITE PATH MODE PHASE TYPE [INCLUDE...]
//
// MODE is `strict`, `sloppy`, `module` or `async-MODE`. PHASE and TYPE are those of the error that the test must end with, or `-`. The exit code
// is 0 if the test passes.

'use strict';

const fs = require('node:fs');
const vm = require('node:vm');

const [suite, path, mode, phase, type, ...includes] = process.argv.slice(2);
const isAsync = mode.startsWith('async-');
const kind = isAsync ? mode.slice(6) : mode;
const { stderr } = process;
const { transfer } = ArrayBuffer.prototype;
const detach = Function.prototype.call.bind(transfer);
// Until the test has passed.
process.exitCode = 1;

function pass() {
    process.exitCode = 0;
}

function fail(reason) {
    process.exitCode = 1;
    stderr.write(`${reason}\n`);
}

function describe(error) {
    return error !== null && typeof error === 'object' ? `${error.name}: ${error.message}` : String(error);
}

// `$262` of a realm, of which `evaluate` evaluates a script.
function host(global, evaluate) {
    const own = {
        global,
        evalScript: evaluate,
        gc: globalThis.gc,
        detachArrayBuffer(buffer) {
            detach(buffer);
            return null;
        },
        createRealm() {
            const context = vm.createContext(vm.constants.DONT_CONTEXTIFY);
            return host(vm.runInContext('globalThis', context), (text) => vm.runInContext(text, context));
        },
        agent: {
            start() {
                throw new Error('there are no other threads');
            },
        },
    };
    Object.defineProperty(global, '$262', { value: own, writable: true, configurable: true, enumerable: false });
    return own;
}
host(globalThis, (text) => vm.runInThisContext(text));

Object.defineProperty(globalThis, 'print', {
    value(message) {
        if (!isAsync) return;
        if (message === 'Test262:AsyncTestComplete') pass();
        else fail(message);
    },
    writable: true,
    configurable: true,
});

// How the test ended: `thrown` is a list with what it threw.
function ended(thrown) {
    if (phase === '-') {
        if (thrown.length > 0) fail(describe(thrown[0]));
        else if (!isAsync) pass();
    } else if (thrown.length === 0) {
        fail(`expected a ${type}`);
    } else if (thrown[0]?.constructor?.name === type) {
        pass();
    } else {
        fail(`expected a ${type}: ${describe(thrown[0])}`);
    }
}

function attempt(run) {
    try {
        run();
    } catch (error) {
        return [error];
    }
    return [];
}

for (const name of includes) {
    const file = `${suite}/harness/${name}`;
    vm.runInThisContext(fs.readFileSync(file, 'utf8'), { filename: file });
}
if (kind === 'module') {
    import(path).then(() => ended([]), (error) => ended([error]));
} else {
    const text = (kind === 'strict' ? '"use strict";\n' : '') + fs.readFileSync(path, 'utf8');
    ended(attempt(() => {
        const script = new vm.Script(text, { filename: path });
        if (phase !== 'parse') script.runInThisContext();
    }));
}
