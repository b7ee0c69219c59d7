// Looks for the native half of the modules, and calls whatever it finds.
const attemptAll = require('./attempts.js');
const { writeSync } = require('node:fs');

const NAMES = ['fs', 'spawn_sync', 'process_wrap', 'tcp_wrap', 'pipe_wrap', 'natives', 'module_wrap', 'contextify', 'os', 'util', 'config', 'inspector'];
const INTERNAL = ['child_process', 'fs', 'process', 'module', 'http', 'loop', 'vm', 'os'];
const found = [];

function look(action) {
    try {
        const value = action();
        if (value !== undefined && value !== null) found.push(value);
    } catch {
        // It is not there.
    }
}

for (const name of NAMES) {
    look(() => process.binding(name));
    look(() => process._linkedBinding(name));
    look(() => process.internalBinding(name));
    look(() => globalThis.internalBinding(name));
    look(() => require(`internal/${name}`));
}
for (const name of INTERNAL) {
    for (const text of [`internal:native/${name}`, `internal:${name}`, `node:internal:native/${name}`, `__wasm_rquickjs_builtin/${name}_native`]) {
        look(() => require(text));
        look(() => module.constructor._load(text, module, false));
        look(() => module.constructor.requireBuiltin(text));
        look(() => globalThis.__skillhost_require(text));
        look(() => process.getBuiltinModule(text));
    }
}
look(() => process.dlopen({ exports: {} }, '/workspace/addon.node'));
look(() => require('/workspace/addon.node'));

// The native functions are also arguments and receivers of what a script can replace.
const { apply } = Reflect;
for (const [object, name] of [[Function.prototype, 'call'], [Function.prototype, 'apply'], [Reflect, 'apply'], [Map.prototype, 'get'], [Array.prototype, 'push'], [Object, 'keys'], [Object, 'assign'], [Object, 'entries']]) {
    const method = object[name];
    object[name] = function (...args) {
        if (found.length < 500) found.push(this, ...args);
        return apply(method, this, args);
    };
    attemptAll(`a spy in ${name}`);
    object[name] = method;
}

// Whatever was found is called as the layer would call it.
const CALLS = {
    spawn: [{ argv: ['sh', '-c', 'echo started'], env: [], cwd: '/', stdio: ['pipe', 'inherit', 'inherit'] }],
    open: ['/workspace/private/key.txt', 'r', 0o666],
    readFile: ['/workspace/private/key.txt'],
    readSource: ['/workspace/private/key.txt'],
    evaluateFile: ['/workspace/private/key.txt'],
};
for (const value of [...found]) {
    for (const name in CALLS) {
        try {
            const result = value[name]?.(...CALLS[name]);
            if (typeof result === 'string') writeSync(1, `got ${name}: ${result}\n`);
        } catch {
            // Denied.
        }
    }
}

// Modules of their own cannot name them either.
for (const name of INTERNAL) {
    import(`internal:native/${name}`).then((namespace) => namespace.spawn?.(...CALLS.spawn), () => {});
    import(`data:text/javascript,export * from "internal:native/${name}"`).then((namespace) => namespace.spawn?.(...CALLS.spawn), () => {});
}
attemptAll('after the search');
