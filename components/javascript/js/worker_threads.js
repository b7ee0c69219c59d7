// node:worker_threads: this is the main thread, and there are no others.

import { EventEmitter } from 'node:events';
import { defer } from 'internal:event_loop';
import structuredClone from '__wasm_rquickjs_builtin/structured_clone';

export const isMainThread = true, isInternalThread = false, parentPort = null, threadId = 0, workerData = null, resourceLimits = {};
export const SHARE_ENV = Symbol.for('nodejs.worker_threads.SHARE_ENV');

function unavailable(what) {
    return Object.assign(new Error(`${what} is unavailable on the current platform, which is being used to run Node.js: a program of the sandbox has one thread`), {
        code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
    });
}

export class Worker extends EventEmitter {
    constructor() {
        super();
        throw unavailable('Worker');
    }
}

// The two ports of a channel. Messages arrive in later turns of the event loop.
export class MessagePort extends EventEmitter {
    #other;
    #closed = false;
    onmessage = null;

    static _pair() {
        const one = new MessagePort(), other = new MessagePort();
        one.#other = other;
        other.#other = one;
        return [one, other];
    }

    postMessage(value) {
        const to = this.#other;
        if (this.#closed || to === undefined) return;
        const data = structuredClone(value);
        defer(() => {
            if (to.#closed) return;
            to.emit('message', data);
            if (typeof to.onmessage === 'function') to.onmessage({ data, target: to, type: 'message' });
        });
    }

    addEventListener(type, listener) {
        this.on(type, (data) => listener({ data, target: this, type }));
    }

    removeEventListener() {}
    start() {}
    ref() { return this; }
    unref() { return this; }

    close() {
        if (this.#closed) return;
        this.#closed = true;
        defer(() => this.emit('close'));
        this.#other?.close();
    }
}

export class MessageChannel {
    constructor() {
        [this.port1, this.port2] = MessagePort._pair();
    }
}

export class BroadcastChannel {
    constructor(name) {
        this.name = String(name);
        this.onmessage = null;
    }

    postMessage() {}
    close() {}
    ref() { return this; }
    unref() { return this; }
}

const environment = new Map();
export const getEnvironmentData = (key) => environment.get(key);
export const setEnvironmentData = (key, value) => environment.set(key, value);
export const markAsUntransferable = () => {}, isMarkedAsUntransferable = () => false, markAsUncloneable = () => {};
export const moveMessagePortToContext = (port) => port, receiveMessageOnPort = () => undefined, postMessageToThread = () => {
    throw unavailable('postMessageToThread');
};

export default {
    isMainThread, isInternalThread, parentPort, threadId, workerData, resourceLimits, SHARE_ENV, Worker, MessagePort, MessageChannel,
    BroadcastChannel, getEnvironmentData, setEnvironmentData, markAsUntransferable, isMarkedAsUntransferable, markAsUncloneable,
    moveMessagePortToContext, receiveMessageOnPort, postMessageToThread,
};
