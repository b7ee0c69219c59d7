// node:worker_threads: this is the main thread, and there are no others.

import { EventEmitter } from 'node:events';
import { DOMException } from '__wasm_rquickjs_builtin/abort_controller';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';
import { defineEventHandler, Event, EventTarget, listenersOf } from 'internal:event_target';
import { MessageEvent } from 'internal:web_gaps';
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

const TOKEN = Symbol();

// What has `on` and the like besides the methods of targets: listeners of `message` get the data instead of the event.
class MessageTarget extends EventTarget {
    #wrappers = [];

    on(type, listener) {
        return this.#add(type, listener, false);
    }

    addListener(type, listener) {
        return this.#add(type, listener, false);
    }

    once(type, listener) {
        return this.#add(type, listener, true);
    }

    #add(type, listener, once) {
        if (typeof listener !== 'function') throw new ERR_INVALID_ARG_TYPE('listener', 'function', listener);
        const wrapper = (event) => {
            if (once) this.off(type, listener);
            return Reflect.apply(listener, this, type === 'message' || type === 'messageerror' ? [event.data] : []);
        };
        this.#wrappers.push({ type, listener, wrapper });
        this.addEventListener(type, wrapper);
        return this;
    }

    off(type, listener) {
        const at = this.#wrappers.findIndex((other) => other.type === type && other.listener === listener);
        if (at >= 0) this.removeEventListener(type, this.#wrappers.splice(at, 1)[0].wrapper);
        return this;
    }

    removeListener(type, listener) {
        return this.off(type, listener);
    }

    removeAllListeners(type) {
        for (const { type: other, listener } of [...this.#wrappers]) if (type === undefined || type === other) this.off(other, listener);
        return this;
    }

    emit(type, value) {
        const known = listenersOf(this, type).length > 0;
        this.dispatchEvent(type === 'message' ? new MessageEvent(type, { data: value }) : new Event(type));
        return known;
    }

    listenerCount(type) {
        return listenersOf(this, type).length;
    }

    eventNames() {
        return [...new Set(this.#wrappers.map(({ type }) => type))];
    }

    setMaxListeners() {
        return this;
    }

    getMaxListeners() {
        return 0;
    }

    ref() {}
    unref() {}

    hasRef() {
        return false;
    }
}

let pair, take;

// The two ports of a channel. Messages arrive in later turns of the event loop, after the port was started.
export class MessagePort extends MessageTarget {
    #other;
    #closed = false;
    #started = false;
    #queue = [];

    static {
        pair = () => {
            const one = new MessagePort(TOKEN), other = new MessagePort(TOKEN);
            one.#other = other;
            other.#other = one;
            return [one, other];
        };
        take = (port) => {
            if (port === null || typeof port !== 'object' || !(#queue in port)) {
                throw Object.assign(new TypeError('The "port" argument must be a MessagePort instance'), { code: 'ERR_INVALID_ARG_TYPE' });
            }
            return port.#queue.length > 0 ? { message: port.#queue.shift() } : undefined;
        };
    }

    constructor(token) {
        if (token !== TOKEN) throw Object.assign(new TypeError('Constructor cannot be called'), { code: 'ERR_CONSTRUCT_CALL_INVALID' });
        super();
    }

    postMessage(value, options) {
        if (arguments.length === 0) throw Object.assign(new TypeError('The "message" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
        const transfer = Array.isArray(options) ? options : options?.transfer;
        const data = structuredClone(value, { transfer });
        const to = this.#other;
        if (this.#closed || to === undefined || to.#closed) return;
        to.#queue.push(data);
        if (to.#started) to.#deliverLater();
    }

    #deliverLater() {
        defer(() => {
            if (this.#closed || this.#queue.length === 0) return;
            this.dispatchEvent(new MessageEvent('message', { data: this.#queue.shift() }));
        });
    }

    addEventListener(type, listener, options) {
        super.addEventListener(type, listener, options);
        if (type === 'message') this.start();
    }

    start() {
        if (this.#started) return;
        this.#started = true;
        for (let count = this.#queue.length; count > 0; count--) this.#deliverLater();
    }

    close(callback) {
        if (typeof callback === 'function') this.once('close', callback);
        if (this.#closed) return;
        // What was sent before arrives.
        defer(() => {
            if (this.#closed) return;
            this.#closed = true;
            this.dispatchEvent(new Event('close'));
            // The other end learns of it in a later turn of the loop, unless the program ends before.
            const other = this.#other;
            if (other !== undefined && !other.#closed) globalThis.setTimeout(() => other.close(), 1).unref();
        });
    }
}
defineEventHandler(MessagePort.prototype, 'message');
defineEventHandler(MessagePort.prototype, 'messageerror');

export class MessageChannel {
    constructor() {
        [this.port1, this.port2] = pair();
    }
}

const channels = new Set();

export class BroadcastChannel extends EventTarget {
    #name;

    constructor(name) {
        if (arguments.length === 0) throw Object.assign(new TypeError('The "name" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
        super();
        this.#name = `${name}`;
        channels.add(this);
    }

    get name() {
        return this.#name;
    }

    postMessage(message) {
        if (arguments.length === 0) throw Object.assign(new TypeError('The "message" argument must be specified'), { code: 'ERR_MISSING_ARGS' });
        if (!channels.has(this)) throw new DOMException('BroadcastChannel is closed.', 'InvalidStateError');
        for (const other of channels) {
            if (other === this || other.#name !== this.#name) continue;
            const data = structuredClone(message);
            defer(() => {
                if (channels.has(other)) other.dispatchEvent(new MessageEvent('message', { data }));
            });
        }
    }

    close() {
        channels.delete(this);
    }

    ref() { return this; }
    unref() { return this; }
}
defineEventHandler(BroadcastChannel.prototype, 'message');
defineEventHandler(BroadcastChannel.prototype, 'messageerror');

const environment = new Map();
export const getEnvironmentData = (key) => environment.get(key);
export const setEnvironmentData = (key, value) => environment.set(key, value);
export const markAsUntransferable = () => {}, isMarkedAsUntransferable = () => false, markAsUncloneable = () => {};
export const moveMessagePortToContext = (port) => port, receiveMessageOnPort = (port) => take(port), postMessageToThread = () => {
    throw unavailable('postMessageToThread');
};

export default {
    isMainThread, isInternalThread, parentPort, threadId, workerData, resourceLimits, SHARE_ENV, Worker, MessagePort, MessageChannel,
    BroadcastChannel, getEnvironmentData, setEnvironmentData, markAsUntransferable, isMarkedAsUntransferable, markAsUncloneable,
    moveMessagePortToContext, receiveMessageOnPort, postMessageToThread,
};
