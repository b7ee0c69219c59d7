// node:zlib: the formats of zlib, Brotli and Zstandard.

import * as native from 'internal:native/zlib';
import buffer, { Buffer } from 'node:buffer';
import { defer, nextTick } from 'internal:event_loop';
import Transform from '__wasm_rquickjs_builtin/internal/streams/transform';
import { ERR_INVALID_ARG_TYPE, ERR_OUT_OF_RANGE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateFunction, validateUint32 } from '__wasm_rquickjs_builtin/internal/validators';

export const constants = {
    Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2,
    Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3, Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6, Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1,
    Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3, Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0,
    ZLIB_VERNUM: 4880, DEFLATE: 1, INFLATE: 2, GZIP: 3, GUNZIP: 4, DEFLATERAW: 5, INFLATERAW: 6, UNZIP: 7, BROTLI_DECODE: 8, BROTLI_ENCODE: 9,
    ZSTD_DECOMPRESS: 11, ZSTD_COMPRESS: 10, Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, Z_MIN_CHUNK: 64,
    Z_MAX_CHUNK: Infinity, Z_DEFAULT_CHUNK: 16384, Z_MIN_MEMLEVEL: 1, Z_MAX_MEMLEVEL: 9, Z_DEFAULT_MEMLEVEL: 8, Z_MIN_LEVEL: -1, Z_MAX_LEVEL: 9,
    Z_DEFAULT_LEVEL: -1, BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2, BROTLI_OPERATION_EMIT_METADATA: 3,
    BROTLI_PARAM_MODE: 0, BROTLI_MODE_GENERIC: 0, BROTLI_MODE_TEXT: 1, BROTLI_MODE_FONT: 2, BROTLI_DEFAULT_MODE: 0, BROTLI_PARAM_QUALITY: 1,
    BROTLI_MIN_QUALITY: 0, BROTLI_MAX_QUALITY: 11, BROTLI_DEFAULT_QUALITY: 11, BROTLI_PARAM_LGWIN: 2, BROTLI_MIN_WINDOW_BITS: 10,
    BROTLI_MAX_WINDOW_BITS: 24, BROTLI_LARGE_MAX_WINDOW_BITS: 30, BROTLI_DEFAULT_WINDOW: 22, BROTLI_PARAM_LGBLOCK: 3, BROTLI_MIN_INPUT_BLOCK_BITS: 16,
    BROTLI_MAX_INPUT_BLOCK_BITS: 24, BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING: 4, BROTLI_PARAM_SIZE_HINT: 5, BROTLI_PARAM_LARGE_WINDOW: 6,
    BROTLI_PARAM_NPOSTFIX: 7, BROTLI_PARAM_NDIRECT: 8, BROTLI_DECODER_RESULT_ERROR: 0, BROTLI_DECODER_RESULT_SUCCESS: 1,
    BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT: 2, BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: 3, BROTLI_DECODER_PARAM_DISABLE_RING_BUFFER_REALLOCATION: 0,
    BROTLI_DECODER_PARAM_LARGE_WINDOW: 1, BROTLI_DECODER_NO_ERROR: 0, BROTLI_DECODER_SUCCESS: 1, BROTLI_DECODER_NEEDS_MORE_INPUT: 2,
    BROTLI_DECODER_NEEDS_MORE_OUTPUT: 3, BROTLI_DECODER_ERROR_FORMAT_EXUBERANT_NIBBLE: -1, BROTLI_DECODER_ERROR_FORMAT_RESERVED: -2,
    BROTLI_DECODER_ERROR_FORMAT_EXUBERANT_META_NIBBLE: -3, BROTLI_DECODER_ERROR_FORMAT_SIMPLE_HUFFMAN_ALPHABET: -4,
    BROTLI_DECODER_ERROR_FORMAT_SIMPLE_HUFFMAN_SAME: -5, BROTLI_DECODER_ERROR_FORMAT_CL_SPACE: -6, BROTLI_DECODER_ERROR_FORMAT_HUFFMAN_SPACE: -7,
    BROTLI_DECODER_ERROR_FORMAT_CONTEXT_MAP_REPEAT: -8, BROTLI_DECODER_ERROR_FORMAT_BLOCK_LENGTH_1: -9,
    BROTLI_DECODER_ERROR_FORMAT_BLOCK_LENGTH_2: -10, BROTLI_DECODER_ERROR_FORMAT_TRANSFORM: -11, BROTLI_DECODER_ERROR_FORMAT_DICTIONARY: -12,
    BROTLI_DECODER_ERROR_FORMAT_WINDOW_BITS: -13, BROTLI_DECODER_ERROR_FORMAT_PADDING_1: -14, BROTLI_DECODER_ERROR_FORMAT_PADDING_2: -15,
    BROTLI_DECODER_ERROR_FORMAT_DISTANCE: -16, BROTLI_DECODER_ERROR_DICTIONARY_NOT_SET: -19, BROTLI_DECODER_ERROR_INVALID_ARGUMENTS: -20,
    BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES: -21, BROTLI_DECODER_ERROR_ALLOC_TREE_GROUPS: -22, BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MAP: -25,
    BROTLI_DECODER_ERROR_ALLOC_RING_BUFFER_1: -26, BROTLI_DECODER_ERROR_ALLOC_RING_BUFFER_2: -27, BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES: -30,
    BROTLI_DECODER_ERROR_UNREACHABLE: -31, ZSTD_e_continue: 0, ZSTD_e_flush: 1, ZSTD_e_end: 2, ZSTD_fast: 1, ZSTD_dfast: 2, ZSTD_greedy: 3,
    ZSTD_lazy: 4, ZSTD_lazy2: 5, ZSTD_btlazy2: 6, ZSTD_btopt: 7, ZSTD_btultra: 8, ZSTD_btultra2: 9, ZSTD_c_compressionLevel: 100,
    ZSTD_c_windowLog: 101, ZSTD_c_hashLog: 102, ZSTD_c_chainLog: 103, ZSTD_c_searchLog: 104, ZSTD_c_minMatch: 105, ZSTD_c_targetLength: 106,
    ZSTD_c_strategy: 107, ZSTD_c_enableLongDistanceMatching: 160, ZSTD_c_ldmHashLog: 161, ZSTD_c_ldmMinMatch: 162, ZSTD_c_ldmBucketSizeLog: 163,
    ZSTD_c_ldmHashRateLog: 164, ZSTD_c_contentSizeFlag: 200, ZSTD_c_checksumFlag: 201, ZSTD_c_dictIDFlag: 202, ZSTD_c_nbWorkers: 400,
    ZSTD_c_jobSize: 401, ZSTD_c_overlapLog: 402, ZSTD_d_windowLogMax: 100, ZSTD_CLEVEL_DEFAULT: 3, ZSTD_error_no_error: 0, ZSTD_error_GENERIC: 1,
    ZSTD_error_prefix_unknown: 10, ZSTD_error_version_unsupported: 12, ZSTD_error_frameParameter_unsupported: 14,
    ZSTD_error_frameParameter_windowTooLarge: 16, ZSTD_error_corruption_detected: 20, ZSTD_error_checksum_wrong: 22,
    ZSTD_error_literals_headerWrong: 24, ZSTD_error_dictionary_corrupted: 30, ZSTD_error_dictionary_wrong: 32,
    ZSTD_error_dictionaryCreation_failed: 34, ZSTD_error_parameter_unsupported: 40, ZSTD_error_parameter_combination_unsupported: 41,
    ZSTD_error_parameter_outOfBound: 42, ZSTD_error_tableLog_tooLarge: 44, ZSTD_error_maxSymbolValue_tooLarge: 46,
    ZSTD_error_maxSymbolValue_tooSmall: 48, ZSTD_error_stabilityCondition_notRespected: 50, ZSTD_error_stage_wrong: 60, ZSTD_error_init_missing: 62,
    ZSTD_error_memory_allocation: 64, ZSTD_error_workSpace_tooSmall: 66, ZSTD_error_dstSize_tooSmall: 70, ZSTD_error_srcSize_wrong: 72,
    ZSTD_error_dstBuffer_null: 74, ZSTD_error_noForwardProgress_destFull: 80, ZSTD_error_noForwardProgress_inputEmpty: 82,
};
Object.freeze(constants);
const { DEFLATE, INFLATE, GZIP, GUNZIP, DEFLATERAW, INFLATERAW, UNZIP, BROTLI_DECODE, BROTLI_ENCODE, ZSTD_COMPRESS, ZSTD_DECOMPRESS, Z_NO_FLUSH,
    Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_FINISH, Z_BLOCK } = constants;

export const codes = {};
for (const name of ['Z_OK', 'Z_STREAM_END', 'Z_NEED_DICT', 'Z_ERRNO', 'Z_STREAM_ERROR', 'Z_DATA_ERROR', 'Z_MEM_ERROR', 'Z_BUF_ERROR', 'Z_VERSION_ERROR']) {
    codes[name] = constants[name];
    codes[constants[name]] = name;
}
Object.freeze(codes);

// The limit when the module is loaded.
const longest = buffer.kMaxLength;

function coded(Class, code, message) {
    return Object.assign(new Class(message), { code });
}

function tooLarge(length) {
    return coded(RangeError, 'ERR_BUFFER_TOO_LARGE', `Cannot create a Buffer larger than ${length} bytes`);
}

// The number of an option. NaN and what is missing are the default.
function number(value, name, low, high, fallback) {
    if (value === undefined || Number.isNaN(value)) return fallback;
    if (typeof value !== 'number') throw new ERR_INVALID_ARG_TYPE(name, 'number', value);
    if (!Number.isFinite(value)) throw new ERR_OUT_OF_RANGE(name, 'a finite number', value);
    if (value < low || value > high) throw new ERR_OUT_OF_RANGE(name, high === Infinity ? `>= ${low}` : `>= ${low} and <= ${high}`, value);
    return value;
}

const isAnyBuffer = (value) => value instanceof ArrayBuffer || (typeof SharedArrayBuffer === 'function' && value instanceof SharedArrayBuffer);

function bytesOf(value) {
    if (ArrayBuffer.isView(value)) {
        // What was transferred has no bytes left.
        return value.buffer.detached ? new Uint8Array(0) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    }
    return new Uint8Array(value);
}

function dictionaryOf({ dictionary }) {
    if (dictionary === undefined) return undefined;
    if (ArrayBuffer.isView(dictionary) || isAnyBuffer(dictionary)) return bytesOf(dictionary);
    throw new ERR_INVALID_ARG_TYPE('options.dictionary', ['Buffer', 'TypedArray', 'DataView', 'ArrayBuffer'], dictionary);
}

const kFlush = Symbol('kFlushFlag');
// Empty chunks that ask for a flush in their place among the others.
const flushes = Array.from({ length: 6 }, (_, flag) => Object.assign(Buffer.alloc(0), { [kFlush]: flag }));
// By how much the flags of zlib flush.
const STRENGTH = [Z_NO_FLUSH, Z_BLOCK, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_FINISH];

function stronger(one, other) {
    return STRENGTH.indexOf(one) > STRENGTH.indexOf(other) ? one : other;
}

class ZlibBase extends Transform {
    // `flags` are the flags of the format: none, the end and a full flush; and the last that there is.
    constructor(options, mode, open, flags) {
        const chunkSize = options?.chunkSize === undefined ? constants.Z_DEFAULT_CHUNK
            : number(options.chunkSize, 'options.chunkSize', constants.Z_MIN_CHUNK, Infinity, constants.Z_DEFAULT_CHUNK);
        const flush = number(options?.flush, 'options.flush', flags.none, flags.last, flags.none);
        const finishFlush = number(options?.finishFlush, 'options.finishFlush', flags.none, flags.last, flags.finish);
        const most = number(options?.maxOutputLength, 'options.maxOutputLength', 1, longest, longest);
        const objectMode = options && (options.encoding || options.objectMode || options.writableObjectMode);
        super({ autoDestroy: true, ...options, ...objectMode && { encoding: undefined, objectMode: false, writableObjectMode: false } });
        const opened = open();
        if (opened.handle === undefined) throw Object.assign(coded(Error, opened.code, opened.message), opened.errno && { errno: opened.errno });
        this.bytesWritten = 0;
        this._handle = { number: opened.handle, close: () => this._closeHandle(), reset: () => this.reset() };
        this._handle._handle = this._handle;
        this._mode = mode;
        this._chunkSize = chunkSize;
        this._defaultFlushFlag = flush;
        this._finishFlushFlag = finishFlush;
        this._defaultFullFlushFlag = flags.full;
        this._info = Boolean(options?.info);
        this._maxOutputLength = most;
        this._rejectGarbageAfterEnd = options?.rejectGarbageAfterEnd === true;
    }

    get _closed() {
        return !this._handle;
    }

    get bytesRead() {
        warnOfBytesRead();
        return this.bytesWritten;
    }

    set bytesRead(value) {
        warnOfBytesRead();
        this.bytesWritten = value;
    }

    reset() {
        if (!this._handle) throw coded(Error, 'ERR_INTERNAL_ASSERTION', 'zlib binding closed');
        native.reset(this._handle.number);
    }

    flush(kind, callback) {
        if (typeof kind === 'function' || (kind === undefined && !callback)) [kind, callback] = [this._defaultFullFlushFlag, kind];
        if (this.writableFinished) {
            if (callback) nextTick(callback);
        } else if (this.writableEnded) {
            if (callback) this.once('end', callback);
        } else {
            this.write(flushes[kind], '', callback);
        }
    }

    close(callback) {
        if (callback) {
            if (this.closed) nextTick(callback);
            else this.once('close', callback);
        }
        this.destroy();
    }

    _closeHandle() {
        if (!this._handle) return;
        native.close(this._handle.number);
        this._handle = null;
    }

    _destroy(error, callback) {
        this._closeHandle();
        callback(error);
    }

    // The last chunk finishes the data: see below.
    _final(callback) {
        callback();
    }

    _flush(callback) {
        this._transform(Buffer.alloc(0), '', callback);
    }

    _transform(chunk, encoding, callback) {
        let flag = chunk[kFlush] ?? this._defaultFlushFlag;
        if (this.writableEnded && this.writableLength === chunk.byteLength) flag = stronger(flag, this._finishFlushFlag);
        defer(() => this._step(chunk, 0, flag, callback));
    }

    // Does what `_transform` does, without a stream.
    _processChunk(chunk, flag, callback) {
        if (typeof callback === 'function') this._step(chunk, 0, flag, callback);
        else return processAll(this, chunk, flag);
    }

    _step(chunk, offset, flag, callback) {
        if (!this._handle) {
            callback();
            return;
        }
        const result = native.write(this._handle.number, flag, bytesOf(chunk), offset, this._chunkSize);
        this.bytesWritten += result.read;
        const { length } = result.output;
        let isFull = false;
        if (length > 0) isFull = !this.push(asBuffer(result.output));
        if (this.destroyed) {
            callback();
            return;
        }
        if (result.code !== undefined) {
            this.destroy(failureOf(result));
            return;
        }
        offset += result.read;
        if (length === this._chunkSize) {
            // Each step is a turn of the loop, as in Node: called from here, the steps of a large chunk would exceed the stack.
            const next = () => defer(() => this._step(chunk, offset, flag, callback));
            if (!isFull) {
                next();
                return;
            }
            // The reader has enough for now.
            const read = this._read;
            this._read = (size) => {
                this._read = read;
                next();
                this._read(size);
            };
            return;
        }
        if (offset < chunk.byteLength) {
            if (this._rejectGarbageAfterEnd) {
                this.destroy(junk());
                return;
            }
            // What follows the compressed data is left.
            this.push(null);
        }
        callback();
    }
}

function junk() {
    return coded(TypeError, 'ERR_TRAILING_JUNK_AFTER_STREAM_END', 'Trailing junk found after the end of the compressed stream');
}

function failureOf({ message, errno, code }) {
    return Object.assign(new Error(message), { errno, code });
}

function asBuffer(bytes) {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

let warned = false;
function warnOfBytesRead() {
    if (warned) return;
    warned = true;
    globalThis.process.emitWarning(
        'zlib.bytesRead is deprecated and will change its meaning in the future. Use zlib.bytesWritten instead.', 'DeprecationWarning', 'DEP0108');
}

// Compresses or decompresses all of a chunk.
function processAll(engine, chunk, flag) {
    if (!engine._handle) throw coded(Error, 'ERR_INTERNAL_ASSERTION', 'zlib binding closed');
    const input = bytesOf(chunk), parts = [];
    let offset = 0, length = 0, result;
    do {
        result = native.write(engine._handle.number, flag, input, offset, engine._chunkSize);
        offset += result.read;
        engine.bytesWritten += result.read;
        length += result.output.length;
        if (length > 0) parts.push(result.output);
        if (length > engine._maxOutputLength) {
            engine._closeHandle();
            throw tooLarge(engine._maxOutputLength);
        }
        if (result.code !== undefined) {
            engine._closeHandle();
            throw failureOf(result);
        }
    } while (result.output.length === engine._chunkSize);
    if (offset < input.length && engine._rejectGarbageAfterEnd) throw junk();
    engine._closeHandle();
    return parts.length === 1 ? asBuffer(parts[0]) : Buffer.concat(parts, length);
}

const ZLIB_FLAGS = { none: Z_NO_FLUSH, finish: Z_FINISH, full: Z_FULL_FLUSH, last: Z_BLOCK };

class Zlib extends ZlibBase {
    constructor(options, mode) {
        let windowBits = constants.Z_DEFAULT_WINDOWBITS, level, memLevel, strategy, dictionary;
        if (options) {
            const decompresses = mode === INFLATE || mode === GUNZIP || mode === UNZIP;
            // Zero asks for the window that the data names.
            if (decompresses && (options.windowBits === undefined || options.windowBits === null || options.windowBits === 0)) windowBits = 0;
            else windowBits = number(options.windowBits, 'options.windowBits', mode === GZIP ? 9 : constants.Z_MIN_WINDOWBITS, 15, 15);
        }
        level = number(options?.level, 'options.level', constants.Z_MIN_LEVEL, constants.Z_MAX_LEVEL, constants.Z_DEFAULT_LEVEL);
        memLevel = number(options?.memLevel, 'options.memLevel', constants.Z_MIN_MEMLEVEL, constants.Z_MAX_MEMLEVEL, constants.Z_DEFAULT_MEMLEVEL);
        strategy = number(options?.strategy, 'options.strategy', constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED, constants.Z_DEFAULT_STRATEGY);
        dictionary = dictionaryOf(options ?? {});
        const oneMember = options?.rejectGarbageAfterEnd === true;
        super(options, mode, () => native.openZlib({ mode, level, windowBits, memLevel, strategy, dictionary, oneMember }), ZLIB_FLAGS);
        this._level = level;
        this._strategy = strategy;
    }

    params(level, strategy, callback) {
        const inRange = (value, name, low, high) => {
            if (typeof value !== 'number') throw new ERR_INVALID_ARG_TYPE(name, 'number', value);
            if (!Number.isFinite(value)) throw new ERR_OUT_OF_RANGE(name, 'a finite number', value);
            if (value < low || value > high) throw new ERR_OUT_OF_RANGE(name, `>= ${low} and <= ${high}`, value);
        };
        inRange(level, 'level', constants.Z_MIN_LEVEL, constants.Z_MAX_LEVEL);
        inRange(strategy, 'strategy', constants.Z_DEFAULT_STRATEGY, constants.Z_FIXED);
        if (this._level === level && this._strategy === strategy) {
            nextTick(callback);
            return;
        }
        this.flush(Z_SYNC_FLUSH, () => {
            if (!this._handle) throw coded(Error, 'ERR_INTERNAL_ASSERTION', 'zlib binding closed');
            native.params(this._handle.number, level);
            if (!this.destroyed) {
                this._level = level;
                this._strategy = strategy;
                callback?.();
            }
        });
    }
}

const PARAMETERS = {
    brotli: { last: 8, code: 'ERR_BROTLI_INVALID_PARAM', name: 'Brotli' },
    zstdCompress: { last: constants.ZSTD_c_overlapLog, code: 'ERR_ZSTD_INVALID_PARAM', name: 'zstd' },
    zstdDecompress: { last: constants.ZSTD_d_windowLogMax, code: 'ERR_ZSTD_INVALID_PARAM', name: 'zstd' },
};

// The pairs of a number and a value in `options.params`.
function parametersOf(options, { last, code, name }) {
    const seen = new Set();
    return Object.keys(options?.params ?? {}).map((key) => {
        const id = +key;
        const isKnown = id >= 0 && id <= last && !seen.has(id);
        seen.add(id);
        if (!isKnown) {
            throw coded(RangeError, code, `${key} is not a valid ${name} parameter`);
        }
        const value = options.params[key];
        if (typeof value !== 'number' && typeof value !== 'boolean') throw new ERR_INVALID_ARG_TYPE('options.params[key]', 'number', value);
        return [id, Number(value)];
    });
}

const BROTLI_FLAGS = { none: constants.BROTLI_OPERATION_PROCESS, finish: constants.BROTLI_OPERATION_FINISH, full: constants.BROTLI_OPERATION_FLUSH,
    last: constants.BROTLI_OPERATION_EMIT_METADATA };

class Brotli extends ZlibBase {
    constructor(options, mode) {
        const parameters = parametersOf(options, PARAMETERS.brotli);
        super(options, mode, () => native.openBrotli(mode === BROTLI_ENCODE, mode === BROTLI_ENCODE ? parameters : []), BROTLI_FLAGS);
    }
}

const ZSTD_FLAGS = { none: constants.ZSTD_e_continue, finish: constants.ZSTD_e_end, full: constants.ZSTD_e_flush, last: constants.ZSTD_e_end };

class Zstd extends ZlibBase {
    constructor(options, mode) {
        const compresses = mode === ZSTD_COMPRESS;
        const parameters = parametersOf(options, compresses ? PARAMETERS.zstdCompress : PARAMETERS.zstdDecompress);
        const dictionary = dictionaryOf(options ?? {});
        const pledged = options?.pledgedSrcSize;
        if (pledged !== undefined) number(pledged, 'options.pledgedSrcSize', 0, Number.MAX_SAFE_INTEGER, 0);
        super(options, mode, () => native.openZstd(compresses, parameters, pledged, dictionary), ZSTD_FLAGS);
    }
}

// Programs call most of these without `new`, and with `this` of a class of their own.
function constructible(name, Base, mode) {
    const wrapper = function (options) {
        if (new.target !== undefined) return Reflect.construct(Base, [options, mode], new.target);
        if (!(this instanceof wrapper)) return Reflect.construct(Base, [options, mode], wrapper);
        const other = Reflect.construct(Base, [options, mode], wrapper);
        for (const key of Reflect.ownKeys(other)) Object.defineProperty(this, key, Object.getOwnPropertyDescriptor(other, key));
        return this;
    };
    Object.defineProperty(wrapper, 'name', { value: name });
    wrapper.prototype = Object.create(Base.prototype, { constructor: { value: wrapper, writable: true, configurable: true } });
    Object.setPrototypeOf(wrapper, Base);
    return wrapper;
}

export const Deflate = constructible('Deflate', Zlib, DEFLATE), Inflate = constructible('Inflate', Zlib, INFLATE);
export const Gzip = constructible('Gzip', Zlib, GZIP), Gunzip = constructible('Gunzip', Zlib, GUNZIP);
export const DeflateRaw = constructible('DeflateRaw', Zlib, DEFLATERAW), InflateRaw = constructible('InflateRaw', Zlib, INFLATERAW);
export const Unzip = constructible('Unzip', Zlib, UNZIP);
export const BrotliCompress = constructible('BrotliCompress', Brotli, BROTLI_ENCODE);
export const BrotliDecompress = constructible('BrotliDecompress', Brotli, BROTLI_DECODE);

export class ZstdCompress extends Zstd {
    constructor(options) { super(options, ZSTD_COMPRESS); }
}

export class ZstdDecompress extends Zstd {
    constructor(options) { super(options, ZSTD_DECOMPRESS); }
}

// The functions that take all of the data at once, with and without a callback.
function convenience(Class, name) {
    const functions = {
        [`${name}Sync`](data, options) {
            const input = inputOf(data);
            const engine = new Class(options);
            const output = processAll(engine, input, engine._finishFlushFlag);
            return engine._info ? { buffer: output, engine } : output;
        },
        [name](data, options, callback) {
            if (typeof options === 'function') [callback, options] = [options, {}];
            const engine = new Class(options);
            validateFunction(callback, 'callback');
            collect(engine, inputOf(data), callback);
        },
    };
    return [functions[name], functions[`${name}Sync`]];
}

function inputOf(data) {
    if (typeof data === 'string') return Buffer.from(data);
    if (ArrayBuffer.isView(data)) return Buffer.from(bytesOf(data).buffer, bytesOf(data).byteOffset, bytesOf(data).byteLength);
    if (isAnyBuffer(data)) return Buffer.from(data);
    throw new ERR_INVALID_ARG_TYPE('buffer', ['string', 'Buffer', 'TypedArray', 'DataView', 'ArrayBuffer'], data);
}

function collect(engine, input, callback) {
    const parts = [];
    let length = 0, done = false;
    const finish = (...results) => {
        if (done) return;
        done = true;
        callback(...results);
    };
    engine.on('data', (chunk) => {
        parts.push(chunk);
        length += chunk.length;
        if (length <= engine._maxOutputLength) return;
        engine.close();
        finish(tooLarge(engine._maxOutputLength));
    });
    engine.on('error', (error) => finish(error));
    engine.on('end', () => {
        const output = parts.length === 1 ? parts[0] : Buffer.concat(parts, length);
        engine.close();
        finish(null, engine._info ? { buffer: output, engine } : output);
    });
    engine.end(input);
}

export const [deflate, deflateSync] = convenience(Deflate, 'deflate'), [gzip, gzipSync] = convenience(Gzip, 'gzip');
export const [deflateRaw, deflateRawSync] = convenience(DeflateRaw, 'deflateRaw'), [unzip, unzipSync] = convenience(Unzip, 'unzip');
export const [inflate, inflateSync] = convenience(Inflate, 'inflate'), [gunzip, gunzipSync] = convenience(Gunzip, 'gunzip');
export const [inflateRaw, inflateRawSync] = convenience(InflateRaw, 'inflateRaw');
export const [brotliCompress, brotliCompressSync] = convenience(BrotliCompress, 'brotliCompress');
export const [brotliDecompress, brotliDecompressSync] = convenience(BrotliDecompress, 'brotliDecompress');
export const [zstdCompress, zstdCompressSync] = convenience(ZstdCompress, 'zstdCompress');
export const [zstdDecompress, zstdDecompressSync] = convenience(ZstdDecompress, 'zstdDecompress');

const creator = (Class, name) => ({ [name](options) { return new Class(options); } })[name];
export const createDeflate = creator(Deflate, 'createDeflate'), createInflate = creator(Inflate, 'createInflate');
export const createDeflateRaw = creator(DeflateRaw, 'createDeflateRaw'), createInflateRaw = creator(InflateRaw, 'createInflateRaw');
export const createGzip = creator(Gzip, 'createGzip'), createGunzip = creator(Gunzip, 'createGunzip'), createUnzip = creator(Unzip, 'createUnzip');
export const createBrotliCompress = creator(BrotliCompress, 'createBrotliCompress');
export const createBrotliDecompress = creator(BrotliDecompress, 'createBrotliDecompress');
export const createZstdCompress = creator(ZstdCompress, 'createZstdCompress');
export const createZstdDecompress = creator(ZstdDecompress, 'createZstdDecompress');

export function crc32(data, value = 0) {
    if (typeof data !== 'string' && !ArrayBuffer.isView(data)) throw new ERR_INVALID_ARG_TYPE('data', ['string', 'Buffer', 'TypedArray', 'DataView'], data);
    validateUint32(value, 'value');
    return native.crc32(typeof data === 'string' ? Buffer.from(data) : bytesOf(data), value) >>> 0;
}

const zlib = {
    crc32, Deflate, Inflate, Gzip, Gunzip, DeflateRaw, InflateRaw, Unzip, BrotliCompress, BrotliDecompress, ZstdCompress, ZstdDecompress, deflate,
    deflateSync, gzip, gzipSync, deflateRaw, deflateRawSync, unzip, unzipSync, inflate, inflateSync, gunzip, gunzipSync, inflateRaw, inflateRawSync,
    brotliCompress, brotliCompressSync, brotliDecompress, brotliDecompressSync, zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync,
    createDeflate, createInflate, createDeflateRaw, createInflateRaw, createGzip, createGunzip, createUnzip, createBrotliCompress,
    createBrotliDecompress, createZstdCompress, createZstdDecompress,
};
export default zlib;

Object.defineProperty(zlib, 'constants', { value: constants, enumerable: true });
Object.defineProperty(zlib, 'codes', { value: codes, enumerable: true });
// Old programs name the constants of zlib here.
for (const [name, value] of Object.entries(constants)) {
    if (!/^(?:BROTLI|ZSTD)/.test(name)) Object.defineProperty(zlib, name, { value, enumerable: false });
}
