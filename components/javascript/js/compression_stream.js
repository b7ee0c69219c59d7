// CompressionStream and DecompressionStream, over node:zlib.

import { importBuiltin } from 'internal:native/vm';

// node:zlib is loaded when it is needed.
const CREATE = {
    gzip: ['createGzip', 'createGunzip'],
    deflate: ['createDeflate', 'createInflate'],
    'deflate-raw': ['createDeflateRaw', 'createInflateRaw'],
};

function streams(format, index) {
    if (!Object.hasOwn(CREATE, `${format}`)) throw Object.assign(new TypeError(`The argument 'format' must be one of: 'deflate', 'deflate-raw', 'gzip'. Received '${format}'`), { code: 'ERR_INVALID_ARG_VALUE' });
    // What follows the compressed data is an error here.
    const stream = importBuiltin('node:zlib')[CREATE[format][index]]({ rejectGarbageAfterEnd: true });
    let failure, fail;
    return new globalThis.TransformStream({
        start(controller) {
            stream.on('data', (chunk) => controller.enqueue(new Uint8Array(chunk)));
            stream.on('error', (error) => {
                failure = Object.assign(new TypeError(error.message, { cause: error }), { code: error.code });
                controller.error(failure);
                fail?.(failure);
            });
        },
        transform(chunk) {
            return new Promise((resolve, reject) => {
                fail = reject;
                stream.write(chunk, (error) => (error ? reject(failure ?? error) : resolve()));
            });
        },
        flush() {
            return new Promise((resolve, reject) => {
                if (failure) {
                    reject(failure);
                    return;
                }
                fail = reject;
                stream.on('end', resolve);
                stream.end();
            });
        },
    });
}

class Pair {
    #streams;

    constructor(format, index) {
        this.#streams = streams(format, index);
    }

    get readable() { return this.#streams.readable; }
    get writable() { return this.#streams.writable; }
}

export class CompressionStream extends Pair {
    constructor(format) { super(format, 0); }
}

export class DecompressionStream extends Pair {
    constructor(format) { super(format, 1); }
}
