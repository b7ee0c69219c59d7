// Timers and immediates.

import * as native from 'internal:native/loop';
import { call, drain } from 'internal:event_loop';
import { capture, destroyScope, newScope } from 'node:async_hooks';

const LONGEST = 2 ** 31 - 1;
let nextId = 1;

// A heap of timers by their time, and then by their order.
const heap = [];
let referenced = 0;
const byId = new Map();

function before(one, other) {
    return one._due - other._due || one._order - other._order;
}

function up(index) {
    const timer = heap[index];
    while (index > 0) {
        const parent = (index - 1) >> 1;
        if (before(heap[parent], timer) <= 0) break;
        heap[index] = heap[parent];
        heap[index]._index = index;
        index = parent;
    }
    heap[index] = timer;
    timer._index = index;
}

function down(index) {
    const timer = heap[index];
    for (;;) {
        let child = 2 * index + 1;
        if (child >= heap.length) break;
        if (child + 1 < heap.length && before(heap[child + 1], heap[child]) < 0) child += 1;
        if (before(timer, heap[child]) <= 0) break;
        heap[index] = heap[child];
        heap[index]._index = index;
        index = child;
    }
    heap[index] = timer;
    timer._index = index;
}

let order = 0;

function insert(timer, start) {
    timer._idleStart = start;
    timer._due = start + timer._idleTimeout;
    timer._order = order++;
    heap.push(timer);
    up(heap.length - 1);
    if (timer._referenced) referenced += 1;
}

function remove(timer) {
    const index = timer._index;
    if (index < 0) return;
    const last = heap.pop();
    if (last !== timer) {
        heap[index] = last;
        last._index = index;
        down(index);
        up(last._index);
    }
    timer._index = -1;
    if (timer._referenced) referenced -= 1;
}

function now() {
    return Math.floor(native.now());
}

export class Timeout {
    constructor(callback, delay, args, repeat) {
        delay = +delay;
        if (!(delay >= 1 && delay <= LONGEST)) {
            if (delay > LONGEST) {
                globalThis.process.emitWarning(
                    `${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`, 'TimeoutOverflowWarning');
            }
            delay = 1;
        }
        delay = Math.trunc(delay);
        this._idleTimeout = delay;
        this._idlePrev = this;
        this._idleNext = this;
        this._idleStart = null;
        this._onTimeout = callback;
        this._timerArgs = args;
        this._repeat = repeat ? delay : null;
        this._destroyed = false;
        for (const [name, value] of [['_referenced', true], ['_index', -1], ['_due', 0], ['_order', 0], ['_context', capture()], ['_id', 0], ['_cleared', false],
            ['_scope', undefined]]) {
            Object.defineProperty(this, name, { value, writable: true, enumerable: false });
        }
        this._scope = newScope('Timeout', this);
        insert(this, now());
    }

    ref() {
        if (!this._referenced) {
            this._referenced = true;
            if (this._index >= 0) referenced += 1;
        }
        return this;
    }

    unref() {
        if (this._referenced) {
            this._referenced = false;
            if (this._index >= 0) referenced -= 1;
        }
        return this;
    }

    hasRef() {
        return this._referenced;
    }

    refresh() {
        if (!this._cleared) {
            this._destroyed = false;
            remove(this);
            insert(this, now());
        }
        return this;
    }

    close() {
        clearTimeout(this);
        return this;
    }

    [Symbol.toPrimitive]() {
        if (this._id === 0) {
            this._id = nextId++;
            byId.set(this._id, this);
        }
        return this._id;
    }

    [Symbol.dispose]() {
        clearTimeout(this);
    }
}

function check(callback) {
    if (typeof callback !== 'function') {
        const received = callback == null ? String(callback)
            : typeof callback === 'object' ? `an instance of ${callback.constructor?.name ?? 'Object'}`
            : `type ${typeof callback} (${typeof callback === 'string' ? `'${callback}'` : String(callback)})`;
        const error = new TypeError(`The "callback" argument must be of type function. Received ${received}`);
        error.code = 'ERR_INVALID_ARG_TYPE';
        throw error;
    }
}

export function setTimeout(callback, delay, ...args) {
    check(callback);
    return new Timeout(callback, delay, args, false);
}

export function setInterval(callback, delay, ...args) {
    check(callback);
    return new Timeout(callback, delay, args, true);
}

export function clearTimeout(timer) {
    if (typeof timer === 'number' || typeof timer === 'string') timer = byId.get(+timer);
    if (!(timer instanceof Timeout)) return;
    remove(timer);
    timer._destroyed = true;
    timer._cleared = true;
    destroyScope(timer._scope);
    if (timer._id !== 0) byId.delete(timer._id);
}

export const clearInterval = function clearInterval(timer) {
    clearTimeout(timer);
};

let immediates = [];
let referencedImmediates = 0;

export class Immediate {
    constructor(callback, args) {
        this._onImmediate = callback;
        this._argv = args;
        this._destroyed = false;
        Object.defineProperty(this, '_referenced', { value: true, writable: true, enumerable: false });
        Object.defineProperty(this, '_context', { value: capture(), writable: true, enumerable: false });
        Object.defineProperty(this, '_scope', { value: newScope('Immediate', this), writable: true, enumerable: false });
        immediates.push(this);
        referencedImmediates += 1;
    }

    ref() {
        if (!this._referenced && !this._destroyed) {
            this._referenced = true;
            referencedImmediates += 1;
        }
        return this;
    }

    unref() {
        if (this._referenced && !this._destroyed) {
            this._referenced = false;
            referencedImmediates -= 1;
        }
        return this;
    }

    hasRef() {
        return this._referenced;
    }

    [Symbol.dispose]() {
        clearImmediate(this);
    }
}

export function setImmediate(callback, ...args) {
    check(callback);
    return new Immediate(callback, args);
}

export function clearImmediate(immediate) {
    if (!(immediate instanceof Immediate) || immediate._destroyed) return;
    immediate._destroyed = true;
    destroyScope(immediate._scope);
    if (immediate._referenced) referencedImmediates -= 1;
    const index = immediates.indexOf(immediate);
    if (index >= 0) immediates.splice(index, 1);
}

export function hasImmediates() {
    return referencedImmediates > 0;
}

export function runImmediates() {
    const list = immediates;
    immediates = [];
    for (const immediate of list) {
        if (immediate._destroyed) continue;
        immediate._destroyed = true;
        if (immediate._referenced) referencedImmediates -= 1;
        call(immediate._onImmediate, immediate, immediate._argv, immediate._context, immediate._scope);
        destroyScope(immediate._scope);
        drain();
    }
}

export function hasTimers() {
    return referenced > 0;
}

// The names of the timers and immediates that keep the loop alive.
export function timerResources() {
    const names = heap.filter((timer) => timer._referenced).map(() => 'Timeout');
    for (const immediate of immediates) if (immediate._referenced) names.push('Immediate');
    return names;
}

// Milliseconds until the next timer; undefined without one.
export function nextTimer() {
    if (heap.length === 0) return undefined;
    return Math.max(0, heap[0]._due - native.now());
}

// Node takes longer than the shortest timer to come to its first turn: such a timer then precedes immediates.
let isFirst = true;

// Runs the timers that are due.
export function runTimers() {
    let time = now();
    if (isFirst && heap.length > 0 && heap[0]._due <= time + 1) {
        native.sleep(Math.max(0, heap[0]._due - native.now()));
        time = Math.max(now(), heap[0]._due);
    }
    isFirst = false;
    while (heap.length > 0 && heap[0]._due <= time) {
        const timer = heap[0];
        remove(timer);
        if (timer._repeat === null) {
            timer._destroyed = true;
        }
        if (typeof timer._onTimeout !== 'function') {
            timer._destroyed = true;
            destroyScope(timer._scope);
            continue;
        }
        const failed = call(timer._onTimeout, timer, timer._timerArgs, timer._context, timer._scope);
        if (timer._repeat === null && timer._index < 0) destroyScope(timer._scope);
        if (timer._repeat !== null && timer._idleTimeout !== -1 && !timer._cleared && timer._index < 0) {
            timer._destroyed = false;
            timer._idleTimeout = timer._repeat;
            insert(timer, now());
        } else if (timer._index >= 0) {
            // It was refreshed in its callback.
            timer._destroyed = false;
        } else if (timer._id !== 0) {
            byId.delete(timer._id);
        }
        // After an error, Node goes on with the next timer at once.
        if (!failed) drain();
        time = now();
    }
}
