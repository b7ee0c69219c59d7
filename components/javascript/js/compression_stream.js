// CompressionStream and DecompressionStream, over node:zlib.

import * as vm from 'internal:native/vm';

const CREATE = {
    gzip: ['createGzip', 'createGunzip'],
    deflate: ['createDeflate', 'createInflate'],
    'deflate-raw': ['createDeflateRaw', 'createInflateRaw'],
};

function streams(format, index) {
    if (!Object.hasOwn(CREATE, `${format}`)) throw Object.assign(new TypeError(`The argument 'format' must be one of: 'deflate', 'deflate-raw', 'gzip'. Received '${format}'`), { code: 'ERR_INVALID_ARG_VALUE' });
    const stream = vm.importBuiltin('node:zlib')[CREATE[format][index]]();
    let failure;
    return new globalThis.TransformStream({
        start(controller) {
            stream.on('data', (chunk) => controller.enqueue(new Uint8Array(chunk)));
            stream.on('error', (error) => {
                failure = error;
                controller.error(error);
            });
        },
        transform(chunk) {
            return new Promise((resolve, reject) => stream.write(chunk, (error) => (error ? reject(error) : resolve())));
        },
        flush() {
            return new Promise((resolve, reject) => {
                if (failure) return reject(failure);
                stream.on('error', reject).on('end', resolve);
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
