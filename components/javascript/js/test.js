// node:test: tests run one after another, and stdout gets a report in the format TAP, as where it is no terminal.

import process from 'node:process';
import assert from 'node:assert';
import { fileURLToPath } from 'node:url';
import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import { AbortError, ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateFunction, validateInteger, validateNumber, validateObject } from '__wasm_rquickjs_builtin/internal/validators';
import { AsyncLocalStorage } from 'node:async_hooks';
import { mock, assert as customAssertions } from '__wasm_rquickjs_builtin/test_mocks';
import { performance } from 'node:perf_hooks';

const FOREVER = Infinity;
// The test in which code runs: nested tests belong to it.
const current = new AsyncLocalStorage();

class TestFailure extends Error {
    constructor(cause, failureType) {
        super(typeof cause === 'string' ? cause : cause?.message ?? String(cause));
        this.code = 'ERR_TEST_FAILURE';
        this.failureType = failureType;
        this.cause = cause;
    }
}

class Unit {
    children = [];
    hooks = { before: [], after: [], beforeEach: [], afterEach: [] };
    diagnostics = [];
    reported = 0;
    failed = false;
    skipped;
    todo;
    error;
    number = 0;
    finished = false;
    #beforeDone = false;

    constructor(kind, name, options, fn, parent) {
        this.kind = kind;
        this.name = name;
        this.options = options;
        this.fn = fn;
        this.parent = parent;
        this.depth = parent === undefined ? -1 : parent.depth + 1;
        this.location = placeOfCall();
        if (options.skip) this.skipped = typeof options.skip === 'string' ? options.skip : '';
        if (options.todo) this.todo = typeof options.todo === 'string' ? options.todo : '';
        this.controller = new globalThis.AbortController();
    }

    get fullName() {
        return this.parent === undefined || this.parent.depth < 0 ? this.name : `${this.parent.fullName} > ${this.name}`;
    }

    // Adds a test or a suite, whose promise is fulfilled when it has run.
    add(child) {
        this.children.push(child);
        child.number = this.children.length;
        child.done = new Promise((resolve) => {
            child.resolve = resolve;
        });
        return child;
    }

    async runBefore() {
        if (this.#beforeDone) return;
        this.#beforeDone = true;
        if (this.parent !== undefined) await this.parent.runBefore();
        for (const hook of this.hooks.before) await runFunction(hook.fn, this.context(), hook.options.timeout);
    }

    context() {
        return this.ownContext ??= this.kind === 'test' ? new TestContext(this) : new SuiteContext(this);
    }

    // The hooks of the suites around a test: outermost first.
    each(name) {
        const outer = this.parent?.each(name) ?? [];
        return name === 'beforeEach' ? [...outer, ...this.hooks[name]] : [...this.hooks[name], ...outer];
    }
}

// Returns where the script called this module.
function placeOfCall() {
    for (const line of String(new Error().stack).split('\n')) {
        const found = /\(?((?:file:\/\/)?\/[^()]*):(\d+):(\d+)\)?$/.exec(line);
        if (!found) continue;
        const file = found[1].startsWith('file:') ? fileURLToPath(found[1]) : found[1];
        return `${file}:${found[2]}:${found[3]}`;
    }
    return undefined;
}

const root = new Unit('suite', '', {}, undefined, undefined);
const counts = { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
let started;
let queue = Promise.resolve();

function parse(name, options, fn) {
    if (typeof name === 'function') [name, options, fn] = [undefined, {}, name];
    else if (name !== null && typeof name === 'object') [name, options, fn] = [undefined, name, options];
    else if (typeof options === 'function') [options, fn] = [{}, options];
    options ??= {};
    validateObject(options, 'options');
    if (fn === undefined) fn = () => {};
    if (typeof fn !== 'function') throw new ERR_INVALID_ARG_TYPE('fn', 'function', fn);
    const { timeout, concurrency, plan, signal } = options;
    if (timeout !== undefined && timeout !== null && timeout !== FOREVER) validateNumber(timeout, 'options.timeout', 0, 2 ** 31 - 1);
    if (concurrency !== undefined && concurrency !== null && typeof concurrency !== 'boolean') {
        if (typeof concurrency !== 'number') throw new ERR_INVALID_ARG_TYPE('options.concurrency', ['boolean', 'number'], concurrency);
        validateInteger(concurrency, 'options.concurrency', 1);
    }
    if (plan !== undefined) validateInteger(plan, 'options.plan', 0);
    if (signal !== undefined && (signal === null || typeof signal !== 'object' || !('aborted' in signal))) {
        throw new ERR_INVALID_ARG_TYPE('options.signal', 'AbortSignal', signal);
    }
    return { name: name === undefined || name === '' ? fn.name || '<anonymous>' : String(name), options, fn };
}

function start() {
    if (started !== undefined) return;
    started = performance.now();
    process.stdout.write('TAP version 13\n');
    process.once('beforeExit', finish);
    process.on('exit', () => {
        if (!ended) cancelRest();
    });
    for (const [event, kind] of [['uncaughtException', 'uncaughtException'], ['unhandledRejection', 'unhandledRejection']]) {
        process.on(event, (error) => {
            const unit = current.getStore();
            if (unit === undefined || unit.finished) {
                root.diagnostics.push(`Error: A resource generated asynchronous activity after the test ended. This activity created the error "${error}" which triggered an ${kind} event, caught by the test runner.`);
                process.exitCode = 1;
                return;
            }
            unit.fail(new TestFailure(error, kind));
        });
    }
}

let ended = false;

async function finish() {
    await queue;
    if (ended) return;
    ended = true;
    for (const hook of root.hooks.after) {
        try {
            await runFunction(hook.fn, root.context(), hook.options.timeout);
        } catch {
            counts.fail += 1;
        }
    }
    summary();
}

function summary() {
    const lines = [`1..${root.children.length}`, ...root.diagnostics.map((text) => `# ${text}`)];
    for (const [name, count] of Object.entries(counts)) lines.push(`# ${name} ${count}`);
    lines.push(`# duration_ms ${performance.now() - started}`);
    process.stdout.write(`${lines.join('\n')}\n`);
    if (counts.fail > 0 || counts.cancelled > 0) process.exitCode = 1;
}

// The program ends while tests have not.
function cancelRest() {
    ended = true;
    for (const unit of root.children) {
        if (unit.finished) continue;
        unit.failed = true;
        unit.cancelled = true;
        unit.error ??= new TestFailure('Promise resolution is still pending but the event loop has already resolved', 'cancelledByParent');
        unit.began ??= performance.now();
        close(unit);
    }
    summary();
}

function addTest(parent, kind, args, overrides = {}) {
    const { name, options, fn } = parse(...args);
    const unit = parent.add(new Unit(kind, name, { ...options, ...overrides }, fn, parent));
    unit.fail = (error) => {
        unit.failed = true;
        unit.error ??= error;
        unit.interrupt?.();
    };
    if (kind === 'suite' && unit.skipped === undefined) {
        // The function of a suite only collects its tests.
        try {
            const result = current.run(unit, () => Reflect.apply(fn, unit.context(), [unit.context()]));
            if (result !== null && typeof result === 'object' && typeof result.then === 'function') {
                unit.building = result.then(undefined, (error) => unit.fail(new TestFailure(error, 'testCodeFailure')));
            }
        } catch (error) {
            unit.fail(new TestFailure(error, 'testCodeFailure'));
        }
    }
    return unit;
}

// Registers a test: at the top, it is run after the earlier ones; in a suite, by the suite; in a test, at once.
function register(kind, args, overrides) {
    start();
    const parent = current.getStore() ?? root;
    const unit = addTest(parent, kind, args, overrides);
    if (parent === root) queue = queue.then(() => runUnit(unit));
    else if (parent.kind === 'test') runUnit(unit);
    return kind === 'suite' && parent !== root ? undefined : unit.done;
}

async function runFunction(fn, context, timeout, signal) {
    return new Promise((resolve, reject) => {
        let timer;
        const settle = (action) => (value) => {
            globalThis.clearTimeout(timer);
            action(value);
        };
        if (typeof timeout === 'number' && timeout !== FOREVER) {
            timer = globalThis.setTimeout(() => reject(new TestFailure(`test timed out after ${timeout}ms`, 'testTimeoutFailure')), timeout);
        }
        signal?.addEventListener('abort', () => reject(signal.reason ?? new AbortError()));
        try {
            if (fn.length >= 2) {
                Reflect.apply(fn, context, [context, (error) => (error ? settle(reject)(error) : settle(resolve)())]);
            } else {
                Promise.resolve(Reflect.apply(fn, context, [context])).then(settle(resolve), settle(reject));
            }
        } catch (error) {
            settle(reject)(error);
        }
    });
}

async function runUnit(unit) {
    unit.began = performance.now();
    try {
        if (unit.options.signal?.aborted) throw new TestFailure(unit.options.signal.reason ?? new AbortError(), 'cancelledByParent');
        if (unit.skipped === undefined) await (unit.kind === 'suite' ? runSuite(unit) : runTest(unit));
    } catch (error) {
        unit.fail(error instanceof TestFailure ? error : new TestFailure(error, 'testCodeFailure'));
    }
    if (unit.children.some((child) => child.failed && child.todo === undefined) && !unit.failed) {
        const count = unit.children.filter((child) => child.failed && child.todo === undefined).length;
        unit.failed = true;
        unit.error = new TestFailure(`${count} subtest${count > 1 ? 's' : ''} failed`, 'subtestsFailed');
    }
    close(unit);
}

async function runSuite(unit) {
    await unit.building;
    if (unit.failed) return;
    if (unit.children.length > 0) await unit.runBefore();
    for (const child of unit.children) await runUnit(child);
    for (const hook of unit.hooks.after) await runFunction(hook.fn, unit.context(), hook.options.timeout);
}

async function runTest(unit) {
    const context = unit.context();
    await unit.parent.runBefore();
    const interrupted = new Promise((resolve) => {
        unit.interrupt = resolve;
    });
    try {
        for (const hook of unit.parent.each('beforeEach')) await runFunction(hook.fn, context, hook.options.timeout);
        await current.run(unit, () => Promise.race([runFunction(unit.fn, context, unit.options.timeout, unit.options.signal), interrupted]));
        for (const child of unit.children) if (!child.finished) child.fail(new TestFailure('test did not finish before its parent and was cancelled', 'cancelledByParent'));
        const plan = unit.plan ?? unit.options.plan;
        if (plan !== undefined && plan !== unit.assertions + unit.children.length) {
            throw new TestFailure(`plan expected ${plan} assertions but received ${unit.assertions + unit.children.length}`, 'testCodeFailure');
        }
    } finally {
        for (const hook of unit.parent.each('afterEach')) await runFunction(hook.fn, context, hook.options.timeout);
        for (const hook of unit.hooks.after) await runFunction(hook.fn, context, hook.options.timeout);
        unit.controller.abort();
        context.mock.restoreAll?.();
    }
}

function count(unit) {
    if (unit.kind === 'suite') {
        counts.suites += 1;
        return;
    }
    counts.tests += 1;
    if (unit.skipped !== undefined) counts.skipped += 1;
    else if (unit.todo !== undefined) counts.todo += 1;
    else if (unit.cancelled || unit.error?.failureType === 'cancelledByParent' || unit.error?.failureType === 'testTimeoutFailure') counts.cancelled += 1;
    else counts[unit.failed ? 'fail' : 'pass'] += 1;
}

// Ends a unit: it is reported when those before it are.
function close(unit) {
    if (unit.finished) return;
    unit.finished = true;
    unit.duration = performance.now() - unit.began;
    count(unit);
    unit.resolve();
    if (unit.depth === 0) process.stdout.write(report(unit));
}

function report(unit) {
    const indent = '    '.repeat(unit.depth);
    let text = `${indent}# Subtest: ${escape(unit.name)}\n`;
    for (const child of unit.children) text += report(child);
    if (unit.children.length > 0) text += `${indent}    1..${unit.children.length}\n`;
    const ok = unit.failed && unit.todo === undefined ? 'not ok' : unit.failed ? 'not ok' : 'ok';
    const directive = unit.skipped !== undefined ? ` # SKIP${unit.skipped && ` ${escape(unit.skipped)}`}` : unit.todo !== undefined ? ` # TODO${unit.todo && ` ${escape(unit.todo)}`}` : '';
    text += `${indent}${ok} ${unit.number} - ${escape(unit.name)}${directive}\n`;
    text += yaml(unit, `${indent}  `);
    for (const line of unit.diagnostics) text += `${indent}# ${escape(line)}\n`;
    return text;
}

function escape(text) {
    return String(text).replace(/[\\#]/g, '\\$&').replace(/\n/g, '\\n').replace(/\r/g, '\\r').replace(/\t/g, '\\t');
}

function yaml(unit, indent) {
    const lines = ['---', `duration_ms: ${unit.duration ?? 0}`, `type: '${unit.kind}'`];
    if (unit.failed) {
        if (unit.location !== undefined) lines.push(`location: ${inspect(unit.location)}`);
        lines.push(`failureType: '${unit.error.failureType}'`, ...errorLines(unit.error));
    }
    lines.push('...');
    return lines.map((line) => `${indent}${line}\n`).join('');
}

// A text as YAML, in one line or as a block.
function block(name, text) {
    const parts = String(text).split('\n');
    return parts.length === 1 ? [`${name}: ${inspect(parts[0])}`] : [`${name}: |-`, ...parts.map((part) => `  ${part}`)];
}

function errorLines({ cause, failureType, message }) {
    const isError = cause !== null && typeof cause === 'object' && typeof cause.message === 'string';
    const lines = block('error', isError ? cause.message : message);
    lines.push(`code: ${inspect(isError && cause.code !== undefined ? cause.code : 'ERR_TEST_FAILURE')}`);
    if (!isError || failureType === 'subtestsFailed') return lines;
    if (cause.name && cause.name !== 'Error') lines.push(`name: ${inspect(cause.name)}`);
    if ('expected' in cause && 'actual' in cause) {
        lines.push(...block('expected', inspect(cause.expected)), ...block('actual', inspect(cause.actual)), `operator: ${inspect(cause.operator)}`);
    }
    const frames = String(cause.stack).split('\n').filter((line) => /^\s+at /.test(line)).map((line) => line.trim().slice(3));
    if (frames.length > 0) lines.push('stack: |-', ...frames.map((frame) => `  ${frame}`));
    return lines;
}

function addHook(unit, name, fn, options = {}) {
    validateFunction(fn, 'fn');
    unit.hooks[name].push({ fn, options: options ?? {} });
}

class SuiteContext {
    #unit;

    constructor(unit) {
        this.#unit = unit;
    }

    get name() { return this.#unit.name; }
    get fullName() { return this.#unit.fullName; }
    get filePath() { return process.argv[1]; }
    get signal() { return this.#unit.controller.signal; }
}

class TestContext {
    #unit;
    #assert;
    #mock;

    constructor(unit) {
        this.#unit = unit;
        unit.assertions = 0;
    }

    get name() { return this.#unit.name; }
    get fullName() { return this.#unit.fullName; }
    get filePath() { return process.argv[1]; }
    get signal() { return this.#unit.controller.signal; }
    get error() { return this.#unit.error ?? null; }
    get passed() { return !this.#unit.failed; }
    get mock() { return this.#mock ??= new mock.constructor(); }

    get assert() {
        if (this.#assert !== undefined) return this.#assert;
        const counted = {};
        for (const [name, method] of Object.entries(assert)) {
            if (['AssertionError', 'CallTracker', 'strict', 'Assert'].includes(name) || typeof method !== 'function') continue;
            counted[name] = (...args) => {
                this.#unit.assertions += 1;
                return Reflect.apply(method, this, args);
            };
        }
        return this.#assert = counted;
    }

    diagnostic(message) {
        this.#unit.diagnostics.push(message);
    }

    plan(count) {
        this.#unit.plan = count;
    }

    runOnly() {}

    skip(message) {
        this.#unit.skipped = message ?? '';
    }

    todo(message) {
        this.#unit.todo = message ?? '';
    }

    test(...args) {
        start();
        const unit = addTest(this.#unit, 'test', args);
        const before = this.#unit.last ?? Promise.resolve();
        this.#unit.last = before.then(() => runUnit(unit));
        return unit.done;
    }

    before(fn, options) { addHook(this.#unit, 'before', fn, options); }
    after(fn, options) { addHook(this.#unit, 'after', fn, options); }
    beforeEach(fn, options) { addHook(this.#unit, 'beforeEach', fn, options); }
    afterEach(fn, options) { addHook(this.#unit, 'afterEach', fn, options); }

    async waitFor(condition, { interval = 50, timeout = 1000 } = {}) {
        validateFunction(condition, 'condition');
        const end = performance.now() + timeout;
        for (;;) {
            try {
                return await condition();
            } catch (cause) {
                if (performance.now() >= end) throw new Error('waitFor() timed out', { cause });
            }
            await new Promise((resolve) => globalThis.setTimeout(resolve, interval));
        }
    }
}

function variant(kind, overrides) {
    return (...args) => register(kind, args, overrides);
}

export function test(...args) {
    return register('test', args);
}

export function suite(...args) {
    return register('suite', args);
}

for (const [target, kind] of [[test, 'test'], [suite, 'suite']]) {
    target.skip = variant(kind, { skip: true });
    target.todo = variant(kind, { todo: true });
    target.only = variant(kind, {});
}

export const it = test, describe = suite;

export function before(fn, options) { addHook(current.getStore() ?? root, 'before', fn, options); }
export function after(fn, options) { addHook(current.getStore() ?? root, 'after', fn, options); }
export function beforeEach(fn, options) { addHook(current.getStore() ?? root, 'beforeEach', fn, options); }
export function afterEach(fn, options) { addHook(current.getStore() ?? root, 'afterEach', fn, options); }

export function run() {
    throw Object.assign(new Error('run() of node:test is unavailable on the current platform, which is being used to run Node.js'), {
        code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
    });
}

const snapshot = { setDefaultSnapshotSerializers() {}, setResolveSnapshotPath() {} };
export { mock, customAssertions as assert, snapshot };
Object.assign(test, { test, it, describe, suite, before, after, beforeEach, afterEach, run, mock, assert: customAssertions, snapshot });
export default test;
