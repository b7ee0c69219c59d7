// The ways out of a context of node:vm. In the sandbox a context separates nothing, so what is outside of it must not be worth the way.
const attemptAll = require('./attempts.js');
const vm = require('node:vm');

const WAYS = [
    'this.constructor.constructor("return process")()',
    '(() => {}).constructor("return globalThis.process")()',
    'Object.getPrototypeOf(async () => {}).constructor("return process")()',
    'try { null.x } catch (error) { error.constructor.constructor("return process")() }',
    'new Proxy({}, { get: (_, name) => name }).constructor; globalThis.process',
    'outer.constructor.constructor("return process")()',
    'import("node:child_process").then((module) => module.execSync("echo started"))',
    'Error.prepareStackTrace = (_, frames) => frames; new Error().stack; this.process',
];
for (const code of WAYS) {
    for (const run of [
        () => vm.runInNewContext(code, { outer: {} }),
        () => vm.runInContext(code, vm.createContext(Object.create(null))),
        () => new vm.Script(code).runInThisContext(),
        () => vm.compileFunction(`return ${code}`)(),
        () => (0, eval)(code),
    ]) {
        try {
            const found = run();
            if (found?.binding) found.binding('spawn_sync');
            if (found?.mainModule) found.mainModule.require('node:child_process').execSync('echo started');
        } catch {
            // No way out.
        }
    }
}
attemptAll('after the context');
