// node:v8: its serialization format, version 15, and the heap figures of V8, of which QuickJS has few.

import { _addPromiseHook } from 'node:async_hooks';
import { Buffer } from 'node:buffer';
import { heap_size_limit } from '__wasm_rquickjs_builtin/v8_native';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';

const VERSION = 15;
// The numbers of Node for the classes of views in `_writeHostObject`.
const VIEWS = [
    Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, DataView,
];
const BUFFER = 10;
const BIGINT_VIEWS = [[11, BigInt64Array], [12, BigUint64Array]];
const ERRORS = { EvalError: 'E', RangeError: 'R', ReferenceError: 'F', SyntaxError: 'S', TypeError: 'T', URIError: 'U' };
const FLAGS = 'gimyusdv';
const text = new TextDecoder('utf-16le');

function cloneError(value) {
    const shown = typeof value === 'symbol' ? value.toString() : typeof value === 'function' ? `${value}` : `#<${value?.constructor?.name ?? 'Object'}>`;
    return new Error(`${shown} could not be cloned.`);
}

export class Serializer {
    #bytes = new Uint8Array(64);
    #length = 0;
    #ids = new Map();
    #viewsAreHostObjects = false;

    writeHeader() {
        this.#byte(0xff);
        this.#byte(VERSION);
    }

    writeValue(value) {
        this.#value(value);
        return true;
    }

    releaseBuffer() {
        const bytes = this.#bytes.slice(0, this.#length);
        this.#bytes = new Uint8Array(64);
        this.#length = 0;
        return Buffer.from(bytes.buffer);
    }

    transferArrayBuffer() {}

    writeUint32(value) {
        this.#varint(value >>> 0);
    }

    writeUint64(high, low) {
        this.#varint((BigInt(high >>> 0) << 32n) | BigInt(low >>> 0));
    }

    writeDouble(value) {
        const bytes = new Uint8Array(8);
        new DataView(bytes.buffer).setFloat64(0, value, true);
        this.writeRawBytes(bytes);
    }

    writeRawBytes(source) {
        if (!ArrayBuffer.isView(source)) throw new ERR_INVALID_ARG_TYPE('source', ['Buffer', 'TypedArray', 'DataView'], source);
        this.#raw(new Uint8Array(source.buffer, source.byteOffset, source.byteLength));
    }

    _setTreatArrayBufferViewsAsHostObjects(yes) {
        this.#viewsAreHostObjects = yes;
    }

    _getDataCloneError(message) {
        return new Error(message);
    }

    #byte(byte) {
        this.#raw([byte]);
    }

    #raw(bytes) {
        while (this.#length + bytes.length > this.#bytes.length) {
            const grown = new Uint8Array(this.#bytes.length * 2);
            grown.set(this.#bytes);
            this.#bytes = grown;
        }
        this.#bytes.set(bytes, this.#length);
        this.#length += bytes.length;
    }

    #tag(tag) {
        this.#byte(tag.charCodeAt(0));
    }

    #varint(value) {
        let rest = BigInt(value);
        do {
            const low = Number(rest & 0x7fn);
            rest >>= 7n;
            this.#byte(rest ? low | 0x80 : low);
        } while (rest);
    }

    #string(value) {
        let latin = true;
        for (let i = 0; i < value.length && latin; i++) latin = value.charCodeAt(i) < 256;
        if (latin) {
            this.#tag('"');
            this.#varint(value.length);
            this.#raw(Uint8Array.from(value, (c) => c.charCodeAt(0)));
            return;
        }
        // The characters are at an even position.
        const size = value.length * 2;
        let sizeOfLength = 1;
        for (let rest = size; rest >= 128; rest = Math.floor(rest / 128)) sizeOfLength++;
        if ((this.#length + 1 + sizeOfLength) % 2) this.#byte(0);
        this.#tag('c');
        this.#varint(size);
        const units = new Uint16Array(value.length);
        for (let i = 0; i < value.length; i++) units[i] = value.charCodeAt(i);
        this.#raw(new Uint8Array(units.buffer));
    }

    #number(value) {
        if ((value | 0) === value && !Object.is(value, -0)) {
            this.#tag('I');
            this.#varint(((value << 1) ^ (value >> 31)) >>> 0);
        } else {
            this.#tag('N');
            this.writeDouble(value);
        }
    }

    #bigint(value) {
        const negative = value < 0n;
        let rest = negative ? -value : value;
        const bytes = [];
        while (rest) {
            bytes.push(Number(rest & 0xffn));
            rest >>= 8n;
        }
        while (bytes.length % 8) bytes.push(0);
        this.#varint((bytes.length << 1) | (negative ? 1 : 0));
        this.#raw(bytes);
    }

    #value(value) {
        switch (typeof value) {
            case 'undefined': return this.#tag('_');
            case 'boolean': return this.#tag(value ? 'T' : 'F');
            case 'number': return this.#number(value);
            case 'string': return this.#string(value);
            case 'bigint': this.#tag('Z'); return this.#bigint(value);
            case 'object': return value === null ? this.#tag('0') : this.#object(value);
            default: throw cloneError(value);
        }
    }

    #object(object) {
        const id = this.#ids.get(object);
        if (id !== undefined) {
            this.#tag('^');
            this.#varint(id);
            return;
        }
        if (ArrayBuffer.isView(object) && !this.#viewsAreHostObjects && !this.#ids.has(object.buffer)) this.#object(object.buffer);
        this.#ids.set(object, this.#ids.size);
        if (Array.isArray(object)) this.#array(object);
        else if (object instanceof Date) { this.#tag('D'); this.writeDouble(object.getTime()); }
        else if (object instanceof RegExp) this.#regexp(object);
        else if (object instanceof Map) this.#map(object);
        else if (object instanceof Set) this.#set(object);
        else if (object instanceof ArrayBuffer) this.#arrayBuffer(object);
        else if (ArrayBuffer.isView(object)) this.#view(object);
        else if (object instanceof Error) this.#error(object);
        else if (object instanceof Boolean) this.#tag(object.valueOf() ? 'y' : 'x');
        else if (object instanceof Number) { this.#tag('n'); this.writeDouble(object.valueOf()); }
        else if (object instanceof String) { this.#tag('s'); this.#string(object.valueOf()); }
        else if (object instanceof BigInt) { this.#tag('z'); this.#bigint(object.valueOf()); }
        else if (object instanceof WeakMap || object instanceof WeakSet || object instanceof Promise || object instanceof WeakRef) throw cloneError(object);
        else {
            this.#tag('o');
            const count = this.#properties(object, Object.keys(object));
            this.#tag('{');
            this.#varint(count);
        }
    }

    #properties(object, keys) {
        for (const key of keys) {
            const index = Number(key);
            if (String(index) === key && index >= 0 && index < 2 ** 32 - 1 && Number.isInteger(index)) this.#number(index);
            else this.#string(key);
            this.#value(object[key]);
        }
        return keys.length;
    }

    #array(array) {
        const { length } = array;
        const keys = Object.keys(array);
        const isDense = keys.length >= length && (length === 0 || keys[length - 1] === String(length - 1));
        this.#tag(isDense ? 'A' : 'a');
        this.#varint(length);
        if (isDense) for (const element of array) this.#value(element);
        const count = this.#properties(array, isDense ? keys.slice(length) : keys);
        this.#tag(isDense ? '$' : '@');
        this.#varint(count);
        this.#varint(length);
    }

    #regexp(regexp) {
        this.#tag('R');
        this.#string(regexp.source);
        this.#varint([...regexp.flags].reduce((bits, flag) => bits | (1 << FLAGS.indexOf(flag)), 0));
    }

    #map(map) {
        this.#tag(';');
        for (const [key, value] of [...map]) {
            this.#value(key);
            this.#value(value);
        }
        this.#tag(':');
        this.#varint(map.size * 2);
    }

    #set(set) {
        this.#tag("'");
        for (const value of [...set]) this.#value(value);
        this.#tag(',');
        this.#varint(set.size);
    }

    #arrayBuffer(buffer) {
        this.#tag('B');
        this.#varint(buffer.byteLength);
        this.#raw(new Uint8Array(buffer));
    }

    #view(view) {
        if (this.#viewsAreHostObjects) {
            this.#tag('\\');
            this._writeHostObject(view);
            return;
        }
        const tags = { Int8Array: 'b', Uint8Array: 'B', Uint8ClampedArray: 'C', Int16Array: 'w', Uint16Array: 'W', Int32Array: 'd', Uint32Array: 'D', Float32Array: 'f', Float64Array: 'F', DataView: '?', BigInt64Array: 'q', BigUint64Array: 'Q' };
        this.#tag('V');
        this.#tag(tags[Buffer.isBuffer(view) ? 'Uint8Array' : view.constructor.name]);
        this.#varint(view.byteOffset);
        this.#varint(view.byteLength);
        this.#varint(0);
    }

    #error(error) {
        this.#tag('r');
        const tag = ERRORS[error.name];
        if (tag) this.#tag(tag);
        const message = Object.getOwnPropertyDescriptor(error, 'message');
        if (message) { this.#tag('m'); this.#string(String(error.message)); }
        if (Object.hasOwn(error, 'cause')) { this.#tag('c'); this.#value(error.cause); }
        if (typeof error.stack === 'string') { this.#tag('s'); this.#string(error.stack); }
        this.#tag('.');
    }
}

export class Deserializer {
    #bytes;
    #at = 0;
    #objects = [];
    #version = 0;

    constructor(buffer) {
        if (!ArrayBuffer.isView(buffer)) throw new ERR_INVALID_ARG_TYPE('buffer', ['Buffer', 'TypedArray', 'DataView'], buffer);
        this.buffer = buffer;
        this.#bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    }

    readHeader() {
        if (this.#bytes[this.#at] !== 0xff) throw new Error('Unable to deserialize cloned data due to invalid or unsupported version.');
        this.#at++;
        this.#version = this.#varint();
        if (this.#version > VERSION) throw new Error('Unable to deserialize cloned data due to invalid or unsupported version.');
        return true;
    }

    readValue() {
        return this.#value();
    }

    getWireFormatVersion() {
        return this.#version;
    }

    transferArrayBuffer(id, buffer) {
        this.#objects[id] = buffer;
    }

    readUint32() {
        return this.#varint();
    }

    readUint64() {
        const value = this.#bigVarint();
        return [Number(value >> 32n), Number(value & 0xffffffffn)];
    }

    readDouble() {
        const part = this.#raw(8);
        return new DataView(part.buffer, part.byteOffset, 8).getFloat64(0, true);
    }

    readRawBytes(length) {
        const part = this.#raw(length);
        return Buffer.from(part.buffer, part.byteOffset, part.length);
    }

    _readRawBytes(length) {
        const at = this.#at;
        this.#raw(length);
        return at;
    }

    #broken() {
        return new Error('Unable to deserialize cloned data.');
    }

    #byte() {
        if (this.#at >= this.#bytes.length) throw this.#broken();
        return this.#bytes[this.#at++];
    }

    #raw(length) {
        if (length > this.#bytes.length - this.#at) throw this.#broken();
        this.#at += length;
        return this.#bytes.subarray(this.#at - length, this.#at);
    }

    #bigVarint() {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            const byte = this.#byte();
            value |= BigInt(byte & 0x7f) << shift;
            if (!(byte & 0x80) || shift > 63n) return value;
        }
    }

    #varint() {
        return Number(this.#bigVarint() & 0xffffffffn);
    }

    // Padding comes before two-byte strings.
    #tag() {
        let byte;
        do byte = this.#byte(); while (byte === 0);
        return String.fromCharCode(byte);
    }

    #peek() {
        const { length } = this.#bytes;
        let at = this.#at;
        while (at < length && this.#bytes[at] === 0) at++;
        return String.fromCharCode(this.#bytes[at]);
    }

    #string(tag = this.#tag()) {
        const part = this.#raw(this.#varint());
        if (tag === '"') return Buffer.from(part.buffer, part.byteOffset, part.length).toString('latin1');
        if (tag === 'c') return text.decode(part);
        if (tag === 'S') return Buffer.from(part.buffer, part.byteOffset, part.length).toString('utf8');
        throw this.#broken();
    }

    #bigint() {
        const bits = this.#varint();
        let value = 0n;
        for (const byte of this.#raw(bits >> 1).slice().reverse()) value = (value << 8n) | BigInt(byte);
        return bits & 1 ? -value : value;
    }

    #remember(object) {
        this.#objects.push(object);
        return object;
    }

    #value() {
        const tag = this.#tag();
        switch (tag) {
            case '_': return undefined;
            case '0': return null;
            case 'T': return true;
            case 'F': return false;
            case 'I': { const bits = this.#varint(); return (bits >>> 1) ^ -(bits & 1); }
            case 'U': return this.#varint();
            case 'N': return this.readDouble();
            case 'Z': return this.#bigint();
            case '"': case 'c': case 'S': return this.#string(tag);
            case '^': {
                const id = this.#varint();
                if (id >= this.#objects.length) throw this.#broken();
                return this.#objects[id];
            }
            case 'o': return this.#properties(this.#remember({}), '{');
            case 'A': case 'a': return this.#array(tag === 'A');
            case 'D': return this.#remember(new Date(this.readDouble()));
            case 'R': return this.#regexp();
            case ';': return this.#map();
            case "'": return this.#set();
            case 'B': return this.#arrayBuffer();
            case 'r': return this.#error();
            case 'y': return this.#remember(Object(true));
            case 'x': return this.#remember(Object(false));
            case 'n': return this.#remember(Object(this.readDouble()));
            case 's': return this.#remember(Object(this.#string()));
            case 'z': return this.#remember(Object(this.#bigint()));
            case '\\': {
                const id = this.#objects.push(undefined) - 1;
                return (this.#objects[id] = this._readHostObject());
            }
            default: throw this.#broken();
        }
    }

    #properties(object, end) {
        while (this.#peek() !== end) {
            const key = this.#value();
            Object.defineProperty(object, key, { value: this.#value(), writable: true, enumerable: true, configurable: true });
        }
        this.#tag();
        this.#varint();
        return object;
    }

    #array(isDense) {
        const length = this.#varint();
        const array = this.#remember([]);
        if (isDense) {
            // Each element has at least a byte.
            if (length > this.#bytes.length - this.#at) throw this.#broken();
            array.length = length;
            for (let i = 0; i < length; i++) {
                if (this.#peek() === '-') this.#tag();
                else array[i] = this.#value();
            }
        } else {
            array.length = length;
        }
        this.#properties(array, isDense ? '$' : '@');
        this.#varint();
        return array;
    }

    #regexp() {
        const source = this.#string();
        const bits = this.#varint();
        return this.#remember(new RegExp(source, [...FLAGS].filter((_, i) => bits & (1 << i)).join('')));
    }

    #map() {
        const map = this.#remember(new Map());
        while (this.#peek() !== ':') {
            const key = this.#value();
            map.set(key, this.#value());
        }
        this.#tag();
        this.#varint();
        return map;
    }

    #set() {
        const set = this.#remember(new Set());
        while (this.#peek() !== ',') set.add(this.#value());
        this.#tag();
        this.#varint();
        return set;
    }

    #arrayBuffer() {
        const buffer = this.#remember(this.#raw(this.#varint()).slice().buffer);
        if (this.#peek() !== 'V') return buffer;
        this.#tag();
        const tags = { b: Int8Array, B: Uint8Array, C: Uint8ClampedArray, w: Int16Array, W: Uint16Array, d: Int32Array, D: Uint32Array, f: Float32Array, F: Float64Array, '?': DataView, q: BigInt64Array, Q: BigUint64Array };
        const View = tags[this.#tag()];
        const offset = this.#varint();
        const length = this.#varint();
        if (this.#version >= 14) this.#varint();
        if (View === undefined || offset + length > buffer.byteLength) throw this.#broken();
        return this.#remember(new View(buffer, offset, length / (View.BYTES_PER_ELEMENT ?? 1)));
    }

    #error() {
        const id = this.#objects.push(undefined) - 1;
        let Class = Error;
        let message;
        let stack;
        const options = {};
        for (;;) {
            const tag = this.#tag();
            const named = Object.keys(ERRORS).find((name) => ERRORS[name] === tag);
            if (named) Class = globalThis[named];
            else if (tag === 'm') message = this.#string();
            else if (tag === 'c') options.cause = this.#value();
            else if (tag === 's') stack = this.#string();
            else if (tag === '.') break;
            else throw this.#broken();
        }
        const error = new Class(message, options);
        if (stack !== undefined) Object.defineProperty(error, 'stack', { value: stack, writable: true, configurable: true });
        return (this.#objects[id] = error);
    }
}

export class DefaultSerializer extends Serializer {
    constructor() {
        super();
        this._setTreatArrayBufferViewsAsHostObjects(true);
    }

    _writeHostObject(view) {
        let number = Buffer.isBuffer(view) ? BUFFER : VIEWS.findIndex((View) => view instanceof View);
        if (number < 0) number = BIGINT_VIEWS.find(([, View]) => view instanceof View)?.[0] ?? -1;
        if (number < 0) throw cloneError(view);
        this.writeUint32(number);
        this.writeUint32(view.byteLength);
        this.writeRawBytes(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
    }
}

export class DefaultDeserializer extends Deserializer {
    _readHostObject() {
        const number = this.readUint32();
        const length = this.readUint32();
        const bytes = this.readRawBytes(length);
        if (number === BUFFER) return Buffer.from(bytes);
        const View = VIEWS[number] ?? BIGINT_VIEWS.find(([other]) => other === number)?.[1];
        if (View === undefined) throw new Error('Unable to deserialize cloned data.');
        const copy = new Uint8Array(bytes).buffer;
        return new View(copy, 0, length / (View.BYTES_PER_ELEMENT ?? 1));
    }
}

export function serialize(value) {
    const serializer = new DefaultSerializer();
    serializer.writeHeader();
    serializer.writeValue(value);
    return serializer.releaseBuffer();
}

export function deserialize(buffer) {
    const deserializer = new DefaultDeserializer(buffer);
    deserializer.readHeader();
    return deserializer.readValue();
}

export function getHeapStatistics() {
    const zero = [
        'total_heap_size', 'total_heap_size_executable', 'total_physical_size', 'total_available_size', 'used_heap_size', 'malloced_memory',
        'peak_malloced_memory', 'does_zap_garbage', 'number_of_native_contexts', 'number_of_detached_contexts', 'total_global_handles_size',
        'used_global_handles_size', 'external_memory',
    ];
    return { ...Object.fromEntries(zero.map((name) => [name, 0])), heap_size_limit: heap_size_limit() };
}

export function getHeapSpaceStatistics() {
    return [];
}

export function getHeapCodeStatistics() {
    return { code_and_metadata_size: 0, bytecode_and_metadata_size: 0, external_script_source_size: 0, cpu_profiler_metadata_size: 0 };
}

export function setFlagsFromString(flags) {
    if (typeof flags !== 'string') throw new ERR_INVALID_ARG_TYPE('flags', 'string', flags);
}

export function cachedDataVersionTag() {
    return VERSION;
}

function refuse(name) {
    return () => {
        throw Object.assign(new Error(`v8.${name} is unavailable on this platform: the engine is QuickJS`), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' });
    };
}

export const getHeapSnapshot = refuse('getHeapSnapshot');
export const writeHeapSnapshot = refuse('writeHeapSnapshot');

// A function that is not asynchronous: its promise would call the hook again.
function plain(value, name) {
    if (typeof value !== 'function' || /^\[object Async/.test(Object.prototype.toString.call(value))) throw new ERR_INVALID_ARG_TYPE(name, 'Function', value);
}

function hook(name, index) {
    return (callback) => {
        plain(callback, name);
        const callbacks = [];
        callbacks[index] = callback;
        return _addPromiseHook(Array.from({ length: 4 }, (_, at) => callbacks[at]));
    };
}

export const promiseHooks = {
    createHook({ init, before, after, settled } = {}) {
        for (const [callback, name] of [[init, 'initHook'], [before, 'beforeHook'], [after, 'afterHook'], [settled, 'settledHook']]) {
            if (callback !== undefined) plain(callback, name);
        }
        return _addPromiseHook([init, before, after, settled]);
    },
    onInit: hook('initHook', 0),
    onBefore: hook('beforeHook', 1),
    onAfter: hook('afterHook', 2),
    onSettled: hook('settledHook', 3),
};

export const startupSnapshot = {
    isBuildingSnapshot: () => false,
    addSerializeCallback: notBuilding, addDeserializeCallback: notBuilding, setDeserializeMainFunction: notBuilding,
};

function notBuilding() {
    throw Object.assign(new Error('Operation cannot be invoked when not building startup snapshot'), { code: 'ERR_NOT_BUILDING_SNAPSHOT' });
}

export function takeCoverage() {}

export function stopCoverage() {}

export default {
    Serializer, Deserializer, DefaultSerializer, DefaultDeserializer, serialize, deserialize, getHeapStatistics, getHeapSpaceStatistics,
    getHeapCodeStatistics, getHeapSnapshot, writeHeapSnapshot, setFlagsFromString, cachedDataVersionTag, takeCoverage, stopCoverage,
    promiseHooks, startupSnapshot,
};
