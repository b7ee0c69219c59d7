// The methods of streams that are like those of arrays.

import { AbortError, ERR_INVALID_ARG_TYPE, ERR_MISSING_ARGS, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateAbortSignal, validateInteger, validateObject } from '__wasm_rquickjs_builtin/internal/validators';
import eos from '__wasm_rquickjs_builtin/internal/streams/end-of-stream';

const SKIPPED = Symbol('skipped');

function check(fn) {
    if (typeof fn !== 'function') throw new ERR_INVALID_ARG_TYPE('fn', ['Function', 'AsyncFunction'], fn);
}

function checkOptions(options) {
    if (options !== undefined && options !== null) validateObject(options, 'options');
    if (options?.signal !== undefined && options.signal !== null) validateAbortSignal(options.signal, 'options.signal');
}

function wholeNumber(value, fallback, name, least) {
    if (value === undefined || value === null) return fallback;
    value = Math.floor(value);
    validateInteger(value, name, least);
    return value;
}

// The calls of `fn` for the chunks of a stream, in order: at most `concurrency` of them run, and at most `size` results wait.
class Calls {
    results = [];
    running = 0;
    isDone = false;
    resume = undefined;
    arrived = undefined;

    constructor(stream, fn, signal, concurrency, size) {
        Object.assign(this, { stream, fn, signal, concurrency, size });
    }

    async start() {
        try {
            for await (const chunk of this.stream) {
                if (this.isDone) return;
                if (this.signal.aborted) throw new AbortError();
                let result;
                try {
                    result = this.fn(chunk, { signal: this.signal });
                    if (result === SKIPPED) continue;
                    result = Promise.resolve(result);
                } catch (error) {
                    result = Promise.reject(error);
                }
                this.running += 1;
                result.then(() => this.ended(), () => {
                    this.isDone = true;
                    this.ended();
                });
                this.add(result);
                if (!this.isDone && (this.results.length >= this.size || this.running >= this.concurrency)) {
                    await new Promise((resolve) => { this.resume = resolve; });
                }
            }
            this.add(undefined);
        } catch (error) {
            const result = Promise.reject(error);
            result.catch(() => {});
            this.add(result);
        } finally {
            this.isDone = true;
        }
    }

    add(result) {
        this.results.push(result);
        this.arrived?.();
        this.arrived = undefined;
    }

    ended() {
        this.running -= 1;
        this.goOn();
    }

    // Lets the loop take the next chunk, if there is room for its result.
    goOn() {
        if (!this.isDone && this.running < this.concurrency && this.results.length < this.size) this.release();
    }

    release() {
        this.resume?.();
        this.resume = undefined;
    }

    async* values() {
        this.start();
        try {
            for (;;) {
                while (this.results.length > 0) {
                    const first = this.results[0];
                    if (first === undefined) return;
                    const value = await first;
                    if (this.signal.aborted) throw new AbortError();
                    if (value !== SKIPPED) yield value;
                    this.results.shift();
                    this.goOn();
                }
                await new Promise((resolve) => { this.arrived = resolve; });
            }
        } finally {
            this.isDone = true;
            this.release();
        }
    }
}

function mapped(stream, fn, options) {
    checkOptions(options);
    const concurrency = wholeNumber(options?.concurrency, 1, 'options.concurrency', 1);
    const waiting = wholeNumber(options?.highWaterMark, concurrency - 1, 'options.highWaterMark', 0);
    const signal = globalThis.AbortSignal.any([options?.signal].filter(Boolean));
    return new Calls(stream, fn, signal, concurrency, waiting + concurrency).values();
}

function map(stream, fn, options) {
    check(fn);
    return mapped(stream, fn, options);
}

function filter(stream, fn, options) {
    check(fn);
    return mapped(stream, async (chunk, given) => await fn(chunk, given) ? chunk : SKIPPED, options);
}

function flatMap(stream, fn, options) {
    const parts = map(stream, fn, options);
    return (async function* () {
        for await (const part of parts) yield* part;
    })();
}

function count(number) {
    number = Number(number);
    if (Number.isNaN(number)) return 0;
    if (number < 0) throw new ERR_OUT_OF_RANGE('number', '>= 0', number);
    return number;
}

function drop(stream, number, options) {
    checkOptions(options);
    number = count(number);
    return (async function* () {
        if (options?.signal?.aborted) throw new AbortError();
        for await (const chunk of stream) {
            if (options?.signal?.aborted) throw new AbortError();
            if (number-- <= 0) yield chunk;
        }
    })();
}

function take(stream, number, options) {
    checkOptions(options);
    number = count(number);
    return (async function* () {
        if (options?.signal?.aborted) throw new AbortError();
        for await (const chunk of stream) {
            if (options?.signal?.aborted) throw new AbortError();
            if (number-- > 0) yield chunk;
            // Another chunk may never come.
            if (number <= 0) return;
        }
    })();
}

async function every(stream, fn, options) {
    check(fn);
    return !await some(stream, async (...args) => !await fn(...args), options);
}

async function some(stream, fn, options) {
    for await (const _ of filter(stream, fn, options)) return true;
    return false;
}

async function find(stream, fn, options) {
    for await (const chunk of filter(stream, fn, options)) return chunk;
    return undefined;
}

async function forEach(stream, fn, options) {
    check(fn);
    const all = mapped(stream, async (chunk, given) => {
        await fn(chunk, given);
        return SKIPPED;
    }, options);
    for await (const _ of all);
}

async function toArray(stream, options) {
    checkOptions(options);
    const chunks = [];
    for await (const chunk of stream) {
        if (options?.signal?.aborted) throw new AbortError(undefined, { cause: options.signal.reason });
        chunks.push(chunk);
    }
    return chunks;
}

class ReduceOfNothing extends ERR_MISSING_ARGS {
    constructor() {
        super('reduce');
        this.message = 'Reduce of an empty stream requires an initial value';
    }
}

async function reduce(stream, fn, ...rest) {
    check(fn);
    const [, options] = rest;
    checkOptions(options);
    let [value] = rest, hasValue = rest.length > 0;
    if (options?.signal?.aborted) {
        const error = new AbortError(undefined, { cause: options.signal.reason });
        stream.once('error', () => {});
        const closed = new Promise((resolve) => eos(stream, () => resolve()));
        stream.destroy(error);
        await closed;
        throw error;
    }
    const controller = new globalThis.AbortController();
    const { signal } = controller;
    options?.signal?.addEventListener('abort', () => controller.abort(), { once: true });
    let isEmpty = true;
    try {
        for await (const chunk of stream) {
            isEmpty = false;
            if (options?.signal?.aborted) throw new AbortError();
            if (hasValue) value = await fn(value, chunk, { signal });
            else [value, hasValue] = [chunk, true];
        }
        if (isEmpty && !hasValue) throw new ReduceOfNothing();
    } finally {
        controller.abort();
    }
    return value;
}

// Adds the methods to streams. `from` makes a stream of what an iterator gives.
export function install(prototype, from) {
    const define = (name, length, method) => {
        // Methods of this form are not constructors.
        const { [name]: value } = { [name](...args) { return method(this, args); } };
        Object.defineProperty(value, 'length', { value: length, configurable: true });
        Object.defineProperty(prototype, name, { value, writable: true, configurable: true, enumerable: false });
    };
    for (const [name, length, method] of [['drop', 1, drop], ['filter', 2, filter], ['flatMap', 2, flatMap], ['map', 2, map], ['take', 1, take]]) {
        define(name, length, (stream, args) => from(method(stream, ...args)));
    }
    for (const [name, length, method] of [
        ['every', 1, every], ['forEach', 2, forEach], ['reduce', 3, reduce], ['toArray', 1, toArray], ['some', 1, some], ['find', 2, find],
    ]) define(name, length, (stream, args) => Promise.resolve().then(() => method(stream, ...args)));
}
