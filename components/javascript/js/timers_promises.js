// node:timers/promises.

import * as timers from 'internal:timers';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';

class AbortError extends Error {
    constructor(cause) {
        super('The operation was aborted', cause === undefined ? undefined : { cause });
        this.name = 'AbortError';
        this.code = 'ABORT_ERR';
    }
}

function checkOptions(options) {
    if (options === null || typeof options !== 'object') throw new ERR_INVALID_ARG_TYPE('options', 'Object', options);
    const { signal, ref } = options;
    if (signal !== undefined && (signal === null || typeof signal !== 'object' || !('aborted' in signal))) {
        throw new ERR_INVALID_ARG_TYPE('options.signal', 'AbortSignal', signal);
    }
    if (ref !== undefined && typeof ref !== 'boolean') throw new ERR_INVALID_ARG_TYPE('options.ref', 'boolean', ref);
    return { signal, ref: ref ?? true };
}

// A promise that `start` resolves, unless the signal aborts it.
function cancellable(options, start, cancel) {
    let checked;
    try {
        checked = checkOptions(options);
    } catch (error) {
        return Promise.reject(error);
    }
    const { signal, ref } = checked;
    if (signal?.aborted) return Promise.reject(new AbortError(signal.reason));
    return new Promise((resolve, reject) => {
        let onAbort;
        const timer = start((value) => {
            if (onAbort) signal.removeEventListener('abort', onAbort);
            resolve(value);
        });
        if (!ref) timer.unref();
        if (signal) {
            onAbort = () => {
                cancel(timer);
                reject(new AbortError(signal.reason));
            };
            signal.addEventListener('abort', onAbort, { once: true });
        }
    });
}

export function setTimeout(delay, value, options = {}) {
    return cancellable(options, (resolve) => timers.setTimeout(() => resolve(value), delay), timers.clearTimeout);
}

export function setImmediate(value, options = {}) {
    return cancellable(options, (resolve) => timers.setImmediate(() => resolve(value)), timers.clearImmediate);
}

export async function* setInterval(delay, value, options = {}) {
    const { signal, ref } = checkOptions(options);
    if (signal?.aborted) throw new AbortError(signal.reason);
    let due = 0, wake;
    const timer = timers.setInterval(() => {
        due += 1;
        wake?.();
    }, delay);
    if (!ref) timer.unref();
    const onAbort = () => {
        timers.clearInterval(timer);
        wake?.();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
        while (!signal?.aborted) {
            if (due === 0) await new Promise((resolve) => { wake = resolve; });
            for (; due > 0; due -= 1) yield value;
        }
        throw new AbortError(signal.reason);
    } finally {
        timers.clearInterval(timer);
        signal?.removeEventListener('abort', onAbort);
    }
}

class Scheduler {
    constructor() {
        throw Object.assign(new TypeError('Illegal constructor'), { code: 'ERR_ILLEGAL_CONSTRUCTOR' });
    }

    wait(delay, options) {
        return setTimeout(delay, undefined, options);
    }

    yield() {
        return setImmediate();
    }
}

export const scheduler = Object.create(Scheduler.prototype);

export default { setTimeout, setImmediate, setInterval, scheduler };
