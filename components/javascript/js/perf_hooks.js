// node:perf_hooks.

import { monotonic_now as now, time_origin as timeOrigin } from '__wasm_rquickjs_builtin/perf_hooks_native';
import { DOMException } from '__wasm_rquickjs_builtin/abort_controller';
import {
    ERR_ILLEGAL_CONSTRUCTOR, ERR_INVALID_ARG_TYPE, ERR_INVALID_ARG_VALUE, ERR_INVALID_THIS, ERR_MISSING_ARGS, ERR_OUT_OF_RANGE,
} from '__wasm_rquickjs_builtin/internal/errors';
import { validateFunction, validateInteger, validateNumber, validateObject, validateString } from '__wasm_rquickjs_builtin/internal/validators';
import { inspect } from '__wasm_rquickjs_builtin/internal/util/inspect';
import structuredClone from '__wasm_rquickjs_builtin/structured_clone';
import { defineEventHandler, Event, EventTarget } from 'internal:event_target';
import { metrics } from 'internal:event_loop';
import { setImmediate, setInterval, clearInterval } from 'internal:timers';

const custom = Symbol.for('nodejs.util.inspect.custom');
const cloneMethod = Symbol.for('__wasm_rquickjs.structuredClone');
const TOKEN = Symbol('own');

function tag(Class) {
    Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

// Scripts see properties of the web's interfaces when they list them.
function list(Class, ...names) {
    for (const name of names) Object.defineProperty(Class.prototype, name, { enumerable: true });
}

function deeper(options) {
    return { ...options, depth: options.depth == null ? null : options.depth - 1 };
}

export class PerformanceEntry {
    #name;
    #type;
    #start;
    #duration;

    constructor(token, name, type, start, duration) {
        if (token !== TOKEN) throw new ERR_ILLEGAL_CONSTRUCTOR();
        this.#name = name;
        this.#type = type;
        this.#start = start;
        this.#duration = duration;
    }

    static #checked(entry) {
        if (!(#name in entry)) throw new ERR_INVALID_THIS('PerformanceEntry');
        return entry;
    }

    get name() { return PerformanceEntry.#checked(this).#name; }
    get entryType() { return PerformanceEntry.#checked(this).#type; }
    get startTime() { return PerformanceEntry.#checked(this).#start; }
    get duration() { return PerformanceEntry.#checked(this).#duration; }

    toJSON() {
        return { name: this.name, entryType: this.entryType, startTime: this.startTime, duration: this.duration };
    }

    [custom](depth, options) {
        if (depth < 0) return `[${this.constructor.name}]`;
        return `${this.constructor.name} ${inspect(this.toJSON(), deeper(options))}`;
    }
}
list(PerformanceEntry, 'name', 'entryType', 'startTime', 'duration', 'toJSON');

// An entry of something that Node itself measures.
class PerformanceNodeEntry extends PerformanceEntry {
    #detail;

    constructor(token, name, type, start, duration, detail) {
        super(token, name, type, start, duration);
        this.#detail = detail;
    }

    get detail() { return this.#detail; }

    toJSON() {
        return { ...super.toJSON(), detail: this.#detail };
    }
}

export class PerformanceMark extends PerformanceEntry {
    #detail;

    constructor(name, options = undefined) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('name');
        name = `${name}`;
        if (MILESTONES.has(name)) throw new ERR_INVALID_ARG_VALUE('name', name);
        if (options !== undefined && options !== null) validateObject(options, 'options');
        let start = options?.startTime;
        if (start === undefined) {
            start = now();
        } else {
            validateNumber(start, 'startTime');
            if (start < 0) throw invalidTime(start);
        }
        super(TOKEN, name, 'mark', start, 0);
        lastMarks.set(name, start);
        this.#detail = copy(options?.detail);
    }

    get detail() { return this.#detail; }

    toJSON() {
        return { name: this.name, entryType: this.entryType, startTime: this.startTime, duration: this.duration, detail: this.#detail };
    }
}
list(PerformanceMark, 'detail');
tag(PerformanceMark);

export class PerformanceMeasure extends PerformanceEntry {
    #detail;

    constructor(token, name, start, duration, detail) {
        super(token, name, 'measure', start, duration);
        this.#detail = detail;
    }

    get detail() { return this.#detail; }

    toJSON() {
        return { ...super.toJSON(), detail: this.#detail };
    }
}
list(PerformanceMeasure, 'detail');
tag(PerformanceMeasure);

export class PerformanceResourceTiming extends PerformanceEntry {
    #given;

    constructor(token, given) {
        super(token, given?.url, 'resource', given?.timing.startTime, given?.timing.endTime - given?.timing.startTime);
        this.#given = given;
    }

    get initiatorType() { return this.#given.initiatorType; }
    get workerStart() { return this.#given.timing.finalServiceWorkerStartTime; }
    get redirectStart() { return this.#given.timing.redirectStartTime; }
    get redirectEnd() { return this.#given.timing.redirectEndTime; }
    get fetchStart() { return this.#given.timing.postRedirectStartTime; }
    get domainLookupStart() { return this.#given.timing.finalConnectionTimingInfo?.domainLookupStartTime; }
    get domainLookupEnd() { return this.#given.timing.finalConnectionTimingInfo?.domainLookupEndTime; }
    get connectStart() { return this.#given.timing.finalConnectionTimingInfo?.connectionStartTime; }
    get connectEnd() { return this.#given.timing.finalConnectionTimingInfo?.connectionEndTime; }
    get secureConnectionStart() { return this.#given.timing.finalConnectionTimingInfo?.secureConnectionStartTime; }
    get nextHopProtocol() { return this.#given.timing.finalConnectionTimingInfo?.ALPNNegotiatedProtocol; }
    get requestStart() { return this.#given.timing.finalNetworkRequestStartTime; }
    get responseStart() { return this.#given.timing.finalNetworkResponseStartTime; }
    get responseEnd() { return this.#given.timing.endTime; }
    get encodedBodySize() { return this.#given.timing.encodedBodySize; }
    get decodedBodySize() { return this.#given.timing.decodedBodySize; }
    get deliveryType() { return this.#given.deliveryType; }
    get responseStatus() { return this.#given.responseStatus; }

    get transferSize() {
        // The standard's estimate of the size of the headers.
        if (this.#given.cacheMode === 'local') return 0;
        return this.#given.cacheMode === 'validated' ? 300 : this.#given.timing.encodedBodySize + 300;
    }

    toJSON() {
        return { ...super.toJSON(), ...Object.fromEntries(RESOURCE.map((name) => [name, this[name]])) };
    }
}
const RESOURCE = [
    'initiatorType', 'nextHopProtocol', 'workerStart', 'redirectStart', 'redirectEnd', 'fetchStart', 'domainLookupStart', 'domainLookupEnd',
    'connectStart', 'connectEnd', 'secureConnectionStart', 'requestStart', 'responseStart', 'responseEnd', 'transferSize', 'encodedBodySize',
    'decodedBodySize', 'deliveryType', 'responseStatus',
];
list(PerformanceResourceTiming, ...RESOURCE);
tag(PerformanceResourceTiming);

let exited = -1;

// The component starts from the memory of a started engine, so nothing precedes the script: these only keep Node's order.
class PerformanceNodeTiming extends PerformanceEntry {
    constructor(token) {
        super(token, 'node', 'node', 0, 0);
        const times = {
            nodeStart: () => 0.001,
            v8Start: () => 0.002,
            environment: () => 0.003,
            bootstrapComplete: () => 0.004,
            idleTime: () => metrics.idle,
            loopStart: () => metrics.start,
            loopExit: () => {
                if (exited < 0 && metrics.ended) exited = now();
                return exited;
            },
            uvMetricsInfo: () => ({ loopCount: metrics.turns, events: metrics.events, eventsWaiting: 0 }),
        };
        Object.defineProperty(this, 'duration', { get: now, enumerable: true, configurable: true });
        for (const [name, get] of Object.entries(times)) Object.defineProperty(this, name, { get, enumerable: true, configurable: true });
    }

    toJSON() {
        const { name, entryType, startTime, duration, nodeStart, v8Start, bootstrapComplete, environment, loopStart, loopExit, idleTime } = this;
        return { name, entryType, startTime, duration, nodeStart, v8Start, bootstrapComplete, environment, loopStart, loopExit, idleTime };
    }
}
const nodeTiming = new PerformanceNodeTiming(TOKEN);
const MILESTONES = new Set(['nodeStart', 'v8Start', 'environment', 'loopStart', 'loopExit', 'bootstrapComplete']);

const lastMarks = new Map();
let marks = [], measures = [], resources = [];

function copy(detail) {
    return detail === undefined || detail === null ? null : structuredClone(detail);
}

function invalidTime(time) {
    return Object.assign(new TypeError(`${time} is not a valid timestamp`), { code: 'ERR_PERFORMANCE_INVALID_TIMESTAMP' });
}

// The time of a mark, by its name, or of a number.
function timeOf(mark) {
    if (typeof mark === 'number') {
        if (mark < 0) throw invalidTime(mark);
        return mark;
    }
    const name = `${mark}`;
    if (MILESTONES.has(name)) return nodeTiming[name];
    const time = lastMarks.get(name);
    if (time === undefined) throw new DOMException(`The "${name}" performance mark has not been set`, 'SyntaxError');
    return time;
}

function startAndEnd(options, endMark) {
    const given = options !== null && typeof options === 'object' ? options : {};
    if (endMark !== undefined && Object.keys(given).length > 0) throw new ERR_INVALID_ARG_VALUE('endMark', endMark, 'must not be specified');
    const { start, end, duration } = given;
    if (start !== undefined && end !== undefined && duration !== undefined) {
        throw new ERR_INVALID_ARG_VALUE('options', options, 'must not have options.start, options.end, and options.duration specified');
    }
    let to;
    if (endMark !== undefined) to = timeOf(endMark);
    else if (end !== undefined) to = timeOf(end);
    else if (start !== undefined && duration !== undefined) to = timeOf(start) + timeOf(duration);
    else to = now();
    if (typeof options === 'string') return [timeOf(options), to];
    if (start !== undefined) return [timeOf(start), to];
    return [end !== undefined && duration !== undefined ? to - timeOf(duration) : 0, to];
}

// The entries with this name and type, in the order of their times.
function select(entries, name, type) {
    const found = entries.filter((entry) => (name === undefined || entry.name === name) && (type === undefined || entry.entryType === type));
    return found.sort((one, other) => one.startTime - other.startTime);
}

function withoutName(entries, name) {
    return name === undefined ? [] : entries.filter((entry) => entry.name !== name);
}

let resourceLimit = 250, later = [], isFull = false;

// Keeps the entry of a resource. If the buffer is full, the script is told, and may make room.
function keepResource(entry) {
    if (resources.length < resourceLimit && !isFull) {
        resources.push(entry);
        return;
    }
    later.push(entry);
    if (isFull) return;
    isFull = true;
    setImmediate(() => {
        while (later.length > 0) {
            const before = later.length;
            performance.dispatchEvent(new Event('resourcetimingbufferfull'));
            resources.push(...later.splice(0, Math.max(0, resourceLimit - resources.length)));
            if (later.length >= before) later = [];
        }
        isFull = false;
    });
}

export class Performance extends EventTarget {
    constructor(token) {
        if (token !== TOKEN) throw new ERR_ILLEGAL_CONSTRUCTOR();
        super();
    }

    static #checked(value) {
        if (value !== performance) throw new ERR_INVALID_THIS('Performance');
    }

    get nodeTiming() { return nodeTiming; }

    get timeOrigin() {
        Performance.#checked(this);
        return timeOrigin();
    }

    now() {
        Performance.#checked(this);
        return now();
    }

    mark(name, options = undefined) {
        Performance.#checked(this);
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('name');
        const mark = new PerformanceMark(name, options);
        _enqueue(mark);
        marks.push(mark);
        return mark;
    }

    measure(name, startOrOptions = {}, endMark = undefined) {
        Performance.#checked(this);
        validateString(name, 'name');
        const [start, end] = startAndEnd(startOrOptions, endMark);
        const measure = new PerformanceMeasure(TOKEN, name, start, end - start, copy(startOrOptions?.detail));
        _enqueue(measure);
        measures.push(measure);
        return measure;
    }

    clearMarks(name = undefined) {
        Performance.#checked(this);
        if (name !== undefined) name = `${name}`;
        marks = withoutName(marks, name);
        if (name === undefined) lastMarks.clear();
        else lastMarks.delete(name);
    }

    clearMeasures(name = undefined) {
        Performance.#checked(this);
        measures = withoutName(measures, name === undefined ? name : `${name}`);
    }

    clearResourceTimings(name = undefined) {
        Performance.#checked(this);
        resources = withoutName(resources, name === undefined ? name : `${name}`);
    }

    getEntries() {
        Performance.#checked(this);
        return select([...marks, ...measures, ...resources]);
    }

    getEntriesByName(name, type = undefined) {
        Performance.#checked(this);
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('name');
        return select([...marks, ...measures, ...resources], `${name}`, type === undefined ? type : `${type}`);
    }

    getEntriesByType(type) {
        Performance.#checked(this);
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
        return select([...marks, ...measures, ...resources], undefined, `${type}`);
    }

    setResourceTimingBufferSize(size) {
        Performance.#checked(this);
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('maxSize');
        resourceLimit = Number.isSafeInteger(size) && size > 0 ? size : 0;
    }

    toJSON() {
        Performance.#checked(this);
        return { nodeTiming, timeOrigin: timeOrigin(), eventLoopUtilization: eventLoopUtilization() };
    }

    [custom](depth, options) {
        if (depth < 0) return `[${this.constructor.name}]`;
        return `Performance ${inspect({ nodeTiming, timeOrigin: timeOrigin() }, deeper(options))}`;
    }
}
list(Performance, 'clearMarks', 'clearMeasures', 'clearResourceTimings', 'getEntries', 'getEntriesByName', 'getEntriesByType', 'mark', 'measure',
    'now', 'setResourceTimingBufferSize', 'timeOrigin', 'toJSON');
defineEventHandler(Performance.prototype, 'resourcetimingbufferfull');
tag(Performance);
for (const method of [eventLoopUtilization, markResourceTiming, timerify]) {
    Object.defineProperty(Performance.prototype, method.name, { value: method, writable: true, configurable: true, enumerable: false });
}
Object.defineProperty(Performance.prototype, 'nodeTiming', { value: nodeTiming, writable: true, configurable: true, enumerable: false });

export const performance = new Performance(TOKEN);

function eventLoopUtilization(one, other) {
    if (metrics.start <= 0) return { idle: 0, active: 0, utilization: 0 };
    const from = (idle, active) => ({ idle, active, utilization: idle + active === 0 ? 0 : active / (idle + active) });
    if (other) return from(one.idle - other.idle, one.active - other.active);
    const { idle } = metrics;
    const active = now() - metrics.start - idle;
    return one ? from(idle - one.idle, active - one.active) : from(idle, active);
}

function markResourceTiming(timing, url, initiatorType, global, cacheMode, bodyInfo, responseStatus, deliveryType = '') {
    if (cacheMode !== '' && cacheMode !== 'local') {
        throw Object.assign(new Error("cache must be an empty string or 'local'"), { code: 'ERR_INTERNAL_ASSERTION' });
    }
    const entry = new PerformanceResourceTiming(TOKEN, { timing, url, initiatorType, cacheMode, bodyInfo, responseStatus, deliveryType });
    _enqueue(entry);
    keepResource(entry);
    return entry;
}

function timerify(fn, options = {}) {
    validateFunction(fn, 'fn');
    validateObject(options, 'options');
    const { histogram } = options;
    if (histogram !== undefined && !(histogram instanceof RecordableHistogram)) {
        throw new ERR_INVALID_ARG_TYPE('options.histogram', 'RecordableHistogram', histogram);
    }
    const done = (start, args) => {
        const duration = now() - start;
        histogram?.record(Math.max(1, Math.ceil(duration * 1e6)));
        const entry = new PerformanceNodeEntry(TOKEN, fn.name, 'function', start, duration, args);
        for (const [index, argument] of args.entries()) entry[index] = argument;
        _enqueue(entry);
    };
    function timerified(...args) {
        const start = now();
        const result = new.target ? Reflect.construct(fn, args, fn) : Reflect.apply(fn, this, args);
        if (!new.target && typeof result?.finally === 'function') return result.finally(() => done(start, args));
        done(start, args);
        return result;
    }
    Object.defineProperty(timerified, 'length', { value: fn.length, configurable: true, enumerable: true });
    Object.defineProperty(timerified, 'name', { value: `timerified ${fn.name}`, configurable: true, enumerable: true });
    return timerified;
}

const TYPES = Object.freeze(['dns', 'function', 'gc', 'http', 'http2', 'mark', 'measure', 'net', 'resource']);
const observers = new Set();
let waiting = new Set();

// Hands an entry to the observers of its type.
export function _enqueue(entry) {
    if (observers.size === 0) return;
    for (const observer of observers) observer[offer](entry);
}

// Whether an observer waits for entries of a type.
export function _isObserved(type) {
    for (const observer of observers) if (observer[observes](type)) return true;
    return false;
}

// Hands on what Node itself measured.
export function _measured(name, type, start, detail) {
    if (!_isObserved(type)) return;
    const entry = new PerformanceNodeEntry(TOKEN, name, type, start, now() - start, detail);
    if (type === 'gc') Object.assign(entry, detail);
    _enqueue(entry);
}

function callLater(observer) {
    waiting.add(observer);
    if (waiting.size > 1) return;
    setImmediate(() => {
        const list = waiting;
        waiting = new Set();
        for (const observer of list) observer[dispatch]();
    });
}
const offer = Symbol('offer'), observes = Symbol('observes'), dispatch = Symbol('dispatch');

export class PerformanceObserverEntryList {
    #entries;

    constructor(token, entries) {
        if (token !== TOKEN) throw new ERR_ILLEGAL_CONSTRUCTOR();
        this.#entries = select(entries);
    }

    getEntries() {
        return this.#entries.slice();
    }

    getEntriesByType(type) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('type');
        return select(this.#entries, undefined, `${type}`);
    }

    getEntriesByName(name, type = undefined) {
        if (arguments.length === 0) throw new ERR_MISSING_ARGS('name');
        return select(this.#entries, `${name}`, type === undefined ? type : `${type}`);
    }

    [custom](depth, options) {
        if (depth < 0) return `[${this.constructor.name}]`;
        return `PerformanceObserverEntryList ${inspect(this.#entries, deeper(options))}`;
    }
}
list(PerformanceObserverEntryList, 'getEntries', 'getEntriesByType', 'getEntriesByName');
tag(PerformanceObserverEntryList);

export class PerformanceObserver {
    #callback;
    #buffer = [];
    #types = new Set();
    #kind;

    constructor(callback) {
        validateFunction(callback, 'callback');
        this.#callback = callback;
    }

    observe(options = {}) {
        validateObject(options, 'options');
        const { entryTypes, type, buffered } = options;
        if (entryTypes === undefined && type === undefined) throw new ERR_MISSING_ARGS('options.entryTypes', 'options.type');
        if (entryTypes != null && type != null) {
            throw new ERR_INVALID_ARG_VALUE('options.entryTypes', entryTypes, 'options.entryTypes can not set with options.type together');
        }
        const kind = entryTypes === undefined ? 'single' : 'multiple';
        if (this.#kind !== undefined && this.#kind !== kind) {
            const change = kind === 'single' ? 'single observation' : 'multiple observations';
            throw new DOMException(`PerformanceObserver can not change to ${change}`, 'InvalidModificationError');
        }
        this.#kind = kind;
        if (kind === 'multiple') {
            if (!Array.isArray(entryTypes)) throw new ERR_INVALID_ARG_TYPE('options.entryTypes', 'string[]', entryTypes);
            this.#types = new Set(entryTypes.filter((type) => TYPES.includes(type)));
        } else if (TYPES.includes(type)) {
            this.#types.add(type);
            if (buffered) {
                this.#buffer.push(...select([...marks, ...measures, ...resources], undefined, type));
                if (this.#buffer.length > 0) callLater(this);
            }
        }
        if (this.#types.size > 0) observers.add(this);
        else this.disconnect();
    }

    disconnect() {
        observers.delete(this);
        waiting.delete(this);
        this.#buffer = [];
        this.#types = new Set();
        this.#kind = undefined;
    }

    takeRecords() {
        return this.#buffer.splice(0);
    }

    static get supportedEntryTypes() {
        return TYPES;
    }

    [offer](entry) {
        if (!this.#types.has(entry.entryType)) return;
        this.#buffer.push(entry);
        callLater(this);
    }

    [observes](type) {
        return this.#types.has(type);
    }

    [dispatch]() {
        const entries = this.takeRecords();
        if (entries.length > 0) Reflect.apply(this.#callback, this, [new PerformanceObserverEntryList(TOKEN, entries), this]);
    }

    [custom](depth, options) {
        if (depth < 0) return `[${this.constructor.name}]`;
        const shown = { connected: observers.has(this), pending: waiting.has(this), entryTypes: [...this.#types], buffer: this.#buffer };
        return `PerformanceObserver ${inspect(shown, deeper(options))}`;
    }
}
list(PerformanceObserver, 'observe', 'disconnect', 'takeRecords');
tag(PerformanceObserver);

// Counts values by ranges that grow with the values, as HdrHistogram does: the first `figures` digits of a value are right.
class Counts {
    counts = new Map();
    total = 0;
    exceeds = 0;
    least = undefined;
    most = 0n;
    previous = undefined;

    constructor(highest, figures) {
        this.highest = BigInt(highest);
        this.precise = BigInt(2 * 10 ** figures - 1).toString(2).length;
    }

    // How many bits of a value are not kept.
    #shift(value) {
        return BigInt(Math.max(0, value.toString(2).length - this.precise));
    }

    lowestEqual(value) {
        const shift = this.#shift(value);
        return (value >> shift) << shift;
    }

    highestEqual(value) {
        return this.lowestEqual(value) + (1n << this.#shift(value)) - 1n;
    }

    middle(value) {
        return this.lowestEqual(value) + ((1n << this.#shift(value)) >> 1n);
    }

    record(value, count = 1) {
        if (value > this.highest) {
            this.exceeds += count;
            return;
        }
        const key = this.lowestEqual(value);
        this.counts.set(key, (this.counts.get(key) ?? 0) + count);
        this.total += count;
        if (this.least === undefined || value < this.least) this.least = value;
        if (value > this.most) this.most = value;
    }

    sorted() {
        return [...this.counts].sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    }

    get min() {
        return this.least === undefined ? 2n ** 63n - 1n : this.lowestEqual(this.least);
    }

    get max() {
        return this.most === 0n ? 0n : this.highestEqual(this.most);
    }

    get mean() {
        let sum = 0;
        for (const [value, count] of this.counts) sum += Number(this.middle(value)) * count;
        return sum / this.total;
    }

    get deviation() {
        const { mean } = this;
        let sum = 0;
        for (const [value, count] of this.counts) sum += (Number(this.middle(value)) - mean) ** 2 * count;
        return Math.sqrt(sum / this.total);
    }

    percentile(percent) {
        const wanted = Math.max(1, Math.floor((percent / 100) * this.total + 0.5));
        let seen = 0;
        for (const [value, count] of this.sorted()) {
            seen += count;
            if (seen >= wanted) return this.highestEqual(value);
        }
        return 0n;
    }

    percentiles() {
        const found = [];
        let seen = 0, next = 0, last = 0n;
        for (const [value, count] of this.sorted()) {
            seen += count;
            last = this.highestEqual(value);
            while (next <= 100 * seen / this.total && next < 100) {
                found.push([next, last]);
                // Half the way to 100 per step.
                next += 100 / 2 ** (Math.floor(Math.log2(100 / (100 - next))) + 1);
                if (seen >= this.total) break;
            }
        }
        found.push([100, last]);
        return found;
    }

    reset() {
        this.counts.clear();
        this.total = this.exceeds = 0;
        this.least = undefined;
        this.most = 0n;
    }
}

let countsOf;

class Histogram {
    #counts;

    static {
        countsOf = (histogram) => {
            if (!(#counts in histogram)) throw new ERR_INVALID_THIS('Histogram');
            return histogram.#counts;
        };
    }

    constructor(token, counts) {
        if (token !== TOKEN) throw new ERR_ILLEGAL_CONSTRUCTOR();
        this.#counts = counts;
    }

    get count() { return countsOf(this).total; }
    get countBigInt() { return BigInt(countsOf(this).total); }
    get min() { return Number(countsOf(this).min); }
    get minBigInt() { return countsOf(this).min; }
    get max() { return Number(countsOf(this).max); }
    get maxBigInt() { return countsOf(this).max; }
    get mean() { return countsOf(this).mean; }
    get exceeds() { return countsOf(this).exceeds; }
    get exceedsBigInt() { return BigInt(countsOf(this).exceeds); }
    get stddev() { return countsOf(this).deviation; }

    percentile(percent) {
        return Number(this.percentileBigInt(percent));
    }

    percentileBigInt(percent) {
        validateNumber(percent, 'percentile');
        if (!(percent > 0 && percent <= 100)) throw new ERR_OUT_OF_RANGE('percentile', '> 0 && <= 100', percent);
        return countsOf(this).percentile(percent);
    }

    get percentiles() {
        return new Map(countsOf(this).percentiles().map(([percent, value]) => [percent, Number(value)]));
    }

    get percentilesBigInt() { return new Map(countsOf(this).percentiles()); }

    reset() {
        countsOf(this).reset();
    }

    toJSON() {
        return {
            count: this.count, min: this.min, max: this.max, mean: this.mean, exceeds: this.exceeds, stddev: this.stddev,
            percentiles: Object.fromEntries(this.percentiles),
        };
    }

    [cloneMethod]() {
        return new Histogram(TOKEN, countsOf(this));
    }

    [custom](depth, options) {
        if (depth < 0) return `[${this.constructor.name}]`;
        const { min, max, mean, exceeds, stddev, count, percentiles } = this;
        return `Histogram ${inspect({ min, max, mean, exceeds, stddev, count, percentiles }, deeper(options))}`;
    }
}

class RecordableHistogram extends Histogram {
    constructor(token, counts) {
        if (token !== TOKEN) throw new ERR_ILLEGAL_CONSTRUCTOR();
        super(token, counts);
    }

    record(value) {
        const counts = countsOf(this);
        if (typeof value !== 'bigint') {
            if (!Number.isInteger(value)) throw new ERR_INVALID_ARG_TYPE('val', ['integer', 'bigint'], value);
            if (value < 1 || value > Number.MAX_SAFE_INTEGER) throw new ERR_OUT_OF_RANGE('val', 'a safe integer greater than 0', value);
        } else if (value < 1n || value > 2n ** 63n - 1n) {
            throw new ERR_OUT_OF_RANGE('val', 'a 64-bit integer greater than 0', value);
        }
        counts.record(BigInt(value));
    }

    // Records the nanoseconds since the last call.
    recordDelta() {
        const counts = countsOf(this);
        const time = Math.floor(now() * 1e6);
        if (counts.previous !== undefined && time > counts.previous) counts.record(BigInt(time - counts.previous));
        counts.previous = time;
    }

    add(other) {
        if (!(other instanceof RecordableHistogram)) throw new ERR_INVALID_ARG_TYPE('other', 'RecordableHistogram', other);
        const counts = countsOf(this), added = countsOf(other);
        for (const [value, count] of added.counts) counts.record(value, count);
        counts.exceeds += added.exceeds;
    }

    [cloneMethod]() {
        return new RecordableHistogram(TOKEN, countsOf(this));
    }
}

// Records how long the event loop keeps a timer waiting.
class ELDHistogram extends Histogram {
    #resolution;
    #timer = null;

    constructor(token, resolution) {
        super(token, new Counts(3.6e12, 3));
        this.#resolution = resolution;
    }

    enable() {
        if (this.#timer !== null) return false;
        let previous = now();
        this.#timer = setInterval(() => {
            const time = now();
            const delta = Math.floor((time - previous) * 1e6);
            if (delta > 0) countsOf(this).record(BigInt(delta));
            previous = time;
        }, this.#resolution).unref();
        return true;
    }

    disable() {
        if (this.#timer === null) return false;
        clearInterval(this.#timer);
        this.#timer = null;
        return true;
    }

    [Symbol.dispose]() {
        this.disable();
    }
}

export function createHistogram(options = {}) {
    validateObject(options, 'options');
    const { lowest = 1, highest = Number.MAX_SAFE_INTEGER, figures = 3 } = options;
    if (typeof lowest !== 'bigint') validateInteger(lowest, 'options.lowest', 1, Number.MAX_SAFE_INTEGER);
    if (typeof highest !== 'bigint') validateInteger(highest, 'options.highest', 2 * Number(lowest), Number.MAX_SAFE_INTEGER);
    else if (highest < 2n * BigInt(lowest)) throw new ERR_INVALID_ARG_VALUE('options.highest', highest);
    validateInteger(figures, 'options.figures', 1, 5);
    return new RecordableHistogram(TOKEN, new Counts(highest, figures));
}

export function monitorEventLoopDelay(options = {}) {
    validateObject(options, 'options');
    const { resolution = 10 } = options;
    validateInteger(resolution, 'options.resolution', 1);
    return new ELDHistogram(TOKEN, resolution);
}

export const constants = Object.freeze({
    NODE_PERFORMANCE_GC_MAJOR: 4, NODE_PERFORMANCE_GC_MINOR: 1, NODE_PERFORMANCE_GC_INCREMENTAL: 8, NODE_PERFORMANCE_GC_WEAKCB: 16,
    NODE_PERFORMANCE_GC_FLAGS_NO: 0, NODE_PERFORMANCE_GC_FLAGS_CONSTRUCT_RETAINED: 2, NODE_PERFORMANCE_GC_FLAGS_FORCED: 4,
    NODE_PERFORMANCE_GC_FLAGS_SYNCHRONOUS_PHANTOM_PROCESSING: 8, NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE: 16,
    NODE_PERFORMANCE_GC_FLAGS_ALL_EXTERNAL_MEMORY: 32, NODE_PERFORMANCE_GC_FLAGS_SCHEDULE_IDLE: 64,
});

export default {
    Performance, PerformanceEntry, PerformanceMark, PerformanceMeasure, PerformanceObserver, PerformanceObserverEntryList, PerformanceResourceTiming,
    monitorEventLoopDelay, createHistogram, performance, constants,
};
