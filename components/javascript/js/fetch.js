// `fetch` and its classes.

import { Exchange } from 'internal:http_exchange';
import { Buffer } from 'node:buffer';
import { URL, URLSearchParams } from 'node:url';
import { ReadableStream } from 'node:stream/web';
import { Blob, File } from '__wasm_rquickjs_builtin/http_blob';
import { FormData, formDataToBlob } from '__wasm_rquickjs_builtin/http_form_data';
import { DOMException } from '__wasm_rquickjs_builtin/abort_controller';
import { TextDecoder } from '__wasm_rquickjs_builtin/encoding';

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const MOST_REDIRECTS = 20;
// As in Node: each encoding takes memory, and the server chooses how many there are.
const MOST_ENCODINGS = 5;

function headerName(name) {
    name = String(name);
    if (!TOKEN.test(name)) throw new TypeError(`Headers.append: ${name} is an invalid header name.`);
    return name.toLowerCase();
}

function headerValue(value) {
    value = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
    if (/[\0\r\n]/.test(value)) throw new TypeError(`Headers.append: "${value}" is an invalid header value.`);
    for (let index = 0; index < value.length; index++) {
        if (value.charCodeAt(index) > 255) {
            throw new TypeError(`Cannot convert argument to a ByteString because the character at index ${index} has a value of ${
                value.charCodeAt(index)} which is greater than 255.`);
        }
    }
    return value;
}

export class Headers {
    #map = new Map();
    #cookies = [];

    constructor(init = undefined) {
        if (init === undefined || init === null) return;
        if (typeof init !== 'object' && typeof init !== 'function') {
            throw new TypeError("Headers constructor: init was not an iterable or a record");
        }
        if (init instanceof Headers) {
            for (const [name, value] of init) this.append(name, value);
        } else if (typeof init[Symbol.iterator] === 'function') {
            for (const pair of init) {
                const [name, value, ...more] = pair;
                if (value === undefined || more.length > 0) throw new TypeError('Headers constructor: expected name/value pair to be length 2');
                this.append(name, value);
            }
        } else {
            for (const name of Reflect.ownKeys(init)) {
                if (Object.getOwnPropertyDescriptor(init, name)?.enumerable) this.append(name, init[name]);
            }
        }
    }

    append(name, value) {
        name = headerName(name);
        value = headerValue(value);
        if (name === 'set-cookie') this.#cookies.push(value);
        this.#map.set(name, this.#map.has(name) ? `${this.#map.get(name)}${name === 'cookie' ? '; ' : ', '}${value}` : value);
    }

    delete(name) {
        name = headerName(name);
        if (name === 'set-cookie') this.#cookies = [];
        this.#map.delete(name);
    }

    get(name) {
        return this.#map.get(headerName(name)) ?? null;
    }

    has(name) {
        return this.#map.has(headerName(name));
    }

    set(name, value) {
        name = headerName(name);
        value = headerValue(value);
        if (name === 'set-cookie') this.#cookies = [value];
        this.#map.set(name, value);
    }

    getSetCookie() {
        return [...this.#cookies];
    }

    forEach(callback, self) {
        if (typeof callback !== 'function') throw new TypeError("Failed to execute 'forEach' on 'Headers': parameter 1 is not of type 'Function'.");
        for (const [name, value] of this) callback.call(self, value, name, this);
    }

    *entries() {
        for (const name of [...this.#map.keys()].sort()) {
            if (name === 'set-cookie') for (const cookie of this.#cookies) yield [name, cookie];
            else yield [name, this.#map.get(name)];
        }
    }

    *keys() {
        for (const [name] of this.entries()) yield name;
    }

    *values() {
        for (const [, value] of this.entries()) yield value;
    }

    [Symbol.iterator]() {
        return this.entries();
    }

    get [Symbol.toStringTag]() {
        return 'Headers';
    }

    [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
        return `Headers ${inspect(Object.fromEntries(this), options)}`;
    }
}

// Returns the bytes or the stream of a body, and its type.
function extract(body) {
    if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'text/plain;charset=UTF-8' };
    if (body instanceof URLSearchParams) {
        return { bytes: Buffer.from(body.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
    }
    if (body instanceof FormData) {
        const blob = formDataToBlob(body);
        return { blob, type: blob.type };
    }
    if (body instanceof Blob) return { blob: body, type: body.type || null };
    if (body instanceof ArrayBuffer) return { bytes: Buffer.from(body.slice(0)), type: null };
    if (ArrayBuffer.isView(body)) return { bytes: Buffer.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength)), type: null };
    if (body instanceof ReadableStream) return { stream: body, type: null };
    if (typeof body?.[Symbol.asyncIterator] === 'function') return { iterable: body, type: null };
    return { bytes: Buffer.from(String(body)), type: 'text/plain;charset=UTF-8' };
}

async function* chunksOf({ bytes, blob, stream, iterable }) {
    if (bytes !== undefined) {
        if (bytes.length > 0) yield bytes;
    } else if (blob !== undefined) {
        yield new Uint8Array(await blob.arrayBuffer());
    } else {
        for await (const chunk of stream ?? iterable) yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    }
}

class Body {
    // What `extract` returned; null without a body.
    _source = null;
    _stream = null;
    _used = false;

    get body() {
        if (this._source === null) return null;
        if (this._stream === null) {
            if (this._source.stream !== undefined) {
                this._stream = this._source.stream;
            } else {
                const chunks = chunksOf(this._source);
                this._stream = new ReadableStream({
                    type: 'bytes',
                    async pull(controller) {
                        const { value, done } = await chunks.next();
                        if (done) {
                            controller.close();
                            controller.byobRequest?.respond(0);
                        } else if (value.byteLength > 0) {
                            controller.enqueue(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
                        }
                    },
                    async cancel() {
                        await chunks.return?.();
                    },
                });
            }
        }
        return this._stream;
    }

    get bodyUsed() {
        return this._used || this._stream?.[Symbol.for('_disturbed')] === true;
    }

    async _bytes() {
        if (this._used || this._stream?.locked) throw new TypeError('Body is unusable: Body has already been read');
        if (this._source === null) return Buffer.alloc(0);
        this._used = true;
        const chunks = [];
        const from = this._stream !== null ? { stream: this._stream } : this._source;
        for await (const chunk of chunksOf(from)) chunks.push(chunk);
        return Buffer.concat(chunks);
    }

    async arrayBuffer() {
        const bytes = await this._bytes();
        return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    }

    async bytes() {
        return new Uint8Array(await this.arrayBuffer());
    }

    async text() {
        return new TextDecoder().decode(await this._bytes());
    }

    async json() {
        return JSON.parse(await this.text());
    }

    async blob() {
        return new Blob([await this._bytes()], { type: this.headers.get('content-type') ?? '' });
    }

    async formData() {
        const type = this.headers.get('content-type') ?? '';
        const bytes = await this._bytes();
        if (/^application\/x-www-form-urlencoded/i.test(type)) {
            const form = new FormData();
            for (const [name, value] of new URLSearchParams(bytes.toString())) form.append(name, value);
            return form;
        }
        const boundary = /^multipart\/form-data;.*boundary=(?:"([^"]+)"|([^;]+))/i.exec(type);
        if (!boundary) throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
        return parseForm(bytes, boundary[1] ?? boundary[2]);
    }
}

function parseForm(bytes, boundary) {
    const form = new FormData();
    for (const part of bytes.toString('latin1').split(`--${boundary}`).slice(1, -1)) {
        const end = part.indexOf('\r\n\r\n');
        const head = Buffer.from(part.slice(2, end), 'latin1').toString();
        const body = Buffer.from(part.slice(end + 4, -2), 'latin1');
        const name = /name="([^"]*)"/i.exec(head)?.[1] ?? '';
        const file = /filename="([^"]*)"/i.exec(head)?.[1];
        if (file === undefined) form.append(name, body.toString());
        else form.append(name, new File([body], file, { type: /content-type: *([^\r\n]+)/i.exec(head)?.[1] ?? '' }));
    }
    return form;
}

const METHODS = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']);

function methodName(method) {
    method = String(method);
    if (!TOKEN.test(method)) throw new TypeError(`'${method}' is not a valid HTTP method.`);
    const upper = method.toUpperCase();
    if (['CONNECT', 'TRACE', 'TRACK'].includes(upper)) throw new TypeError(`'${method}' HTTP method is unsupported.`);
    return METHODS.has(upper) ? upper : method;
}

export class Request extends Body {
    constructor(input, init = {}) {
        super();
        if (arguments.length === 0) throw new TypeError('Request constructor: 1 argument required, but only 0 present.');
        let from = {};
        if (input instanceof Request) {
            from = input;
            this.url = input.url;
        } else {
            let url;
            try {
                url = new URL(String(input));
            } catch (cause) {
                throw new TypeError(`Failed to parse URL from ${input}`, { cause });
            }
            if (url.username || url.password) throw new TypeError(`Request cannot be constructed from a URL that includes credentials: ${input}`);
            this.url = url.href;
        }
        init ??= {};
        this.method = methodName(init.method ?? from.method ?? 'GET');
        this.headers = new Headers(init.headers ?? from.headers);
        this.redirect = init.redirect ?? from.redirect ?? 'follow';
        this.signal = init.signal ?? from.signal ?? new globalThis.AbortController().signal;
        this.mode = init.mode ?? from.mode ?? 'cors';
        this.credentials = init.credentials ?? from.credentials ?? 'same-origin';
        this.cache = init.cache ?? from.cache ?? 'default';
        this.referrer = init.referrer ?? from.referrer ?? 'about:client';
        this.referrerPolicy = init.referrerPolicy ?? from.referrerPolicy ?? '';
        this.integrity = init.integrity ?? from.integrity ?? '';
        this.keepalive = init.keepalive ?? from.keepalive ?? false;
        this.duplex = 'half';
        this.destination = '';
        if (init.body !== undefined && init.body !== null) {
            if (this.method === 'GET' || this.method === 'HEAD') throw new TypeError('Request with GET/HEAD method cannot have body.');
            this._source = extract(init.body);
            if ((this._source.stream ?? this._source.iterable) !== undefined && init.duplex !== 'half') {
                throw new TypeError('RequestInit: duplex option is required when sending a body.');
            }
            if (this._source.type && !this.headers.has('content-type')) this.headers.set('content-type', this._source.type);
        } else if (from._source && init.body === undefined) {
            this._source = from._source;
            from._used = true;
        }
    }

    clone() {
        if (this._used) throw new TypeError('unusable');
        const copy = new Request(this.url, { ...this, method: this.method, headers: this.headers, signal: this.signal, body: undefined });
        copy._source = tee(this);
        return copy;
    }

    get [Symbol.toStringTag]() {
        return 'Request';
    }
}

// Splits a body in two, and returns the second.
function tee(body) {
    const source = body._source;
    if (source === null || source.bytes !== undefined || source.blob !== undefined) return source;
    const [one, other] = body.body.tee();
    body._source = { stream: one, type: source.type };
    body._stream = null;
    return { stream: other, type: source.type };
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

export class Response extends Body {
    constructor(body = null, init = {}) {
        super();
        const status = init?.status ?? 200;
        if (!(status >= 200 && status <= 599)) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
        this.type = 'default';
        this.url = '';
        this.redirected = false;
        this.status = status;
        this.statusText = String(init?.statusText ?? '');
        this.headers = new Headers(init?.headers);
        if (body !== null && body !== undefined) {
            if (WITHOUT_BODY.has(status)) throw new TypeError(`Response constructor: Invalid response status code ${status}`);
            this._source = extract(body);
            if (this._source.type && !this.headers.has('content-type')) this.headers.set('content-type', this._source.type);
        }
    }

    get ok() {
        return this.status >= 200 && this.status <= 299;
    }

    clone() {
        if (this._used || this._stream?.locked) throw new TypeError('Response.clone: Body has already been consumed.');
        const copy = new Response(null, { status: this.status, statusText: this.statusText, headers: this.headers });
        Object.assign(copy, { type: this.type, url: this.url, redirected: this.redirected });
        copy._source = tee(this);
        return copy;
    }

    static error() {
        const response = new Response();
        return Object.assign(response, { type: 'error', status: 0 });
    }

    static redirect(url, status = 302) {
        if (!REDIRECTS.has(status)) throw new RangeError(`Invalid status code ${status}`);
        return new Response(null, { status, headers: { location: new URL(String(url)).href } });
    }

    static json(data, init = {}) {
        const text = JSON.stringify(data);
        if (text === undefined) throw new TypeError('The data is not JSON serializable');
        const response = new Response(text, init);
        if (!new Headers(init.headers).has('content-type')) response.headers.set('content-type', 'application/json');
        return response;
    }

    get [Symbol.toStringTag]() {
        return 'Response';
    }
}

for (const one of [Request, Response]) {
    Object.defineProperty(one.prototype, Symbol.for('nodejs.util.inspect.custom'), {
        value(depth, options, inspect) {
            const shown = {};
            const names = one === Request ? ['method', 'url', 'headers', 'destination', 'referrer', 'referrerPolicy', 'mode', 'credentials', 'cache', 'redirect', 'integrity', 'keepalive', 'signal']
                : ['status', 'statusText', 'headers', 'body', 'bodyUsed', 'ok', 'redirected', 'type', 'url'];
            for (const name of names) shown[name] = this[name];
            return `${one.name} ${inspect(shown, options)}`;
        },
        configurable: true,
    });
}

function failed(cause) {
    return new TypeError('fetch failed', { cause });
}

function cause({ code, message }) {
    return Object.assign(new Error(message), { code });
}

function abortReason(signal) {
    return signal.reason ?? new DOMException('This operation was aborted', 'AbortError');
}

// Sends one request, and resolves to the head of the response and a stream of its body.
function exchange(request, url, method, headers, source) {
    return new Promise((resolve, reject) => {
        const { signal } = request;
        let controller, finished = false, begun = false;
        const settle = () => {
            finished = true;
            signal?.removeEventListener?.('abort', abort);
        };
        const abort = () => {
            const reason = abortReason(signal);
            sent.close();
            settle();
            if (begun) controller.error(reason);
            else reject(reason);
        };
        const sent = new Exchange(url, method, headers, {
            answer(status, list) {
                begun = true;
                const stream = new ReadableStream({
                    start(given) { controller = given; },
                    pull: () => new Promise((done) => {
                        wake = done;
                        if (finished) done();
                        else sent.read();
                    }),
                    cancel() {
                        sent.close();
                        settle();
                    },
                }, { highWaterMark: 0 });
                resolve({ status, list, stream, cancel: () => sent.close() });
            },
            data(bytes) {
                controller.enqueue(bytes);
                wake?.();
            },
            end() {
                settle();
                controller.close();
                wake?.();
            },
            error(failure) {
                settle();
                if (begun) {
                    controller.error(new TypeError('terminated', { cause: cause(failure) }));
                    wake?.();
                } else {
                    reject(failed(cause(failure)));
                }
            },
        });
        let wake;
        if (signal?.aborted) {
            abort();
            return;
        }
        signal?.addEventListener?.('abort', abort);
        send(sent, source).catch((error) => {
            sent.close();
            settle();
            reject(failed(error));
        });
    });
}

async function send(sent, source) {
    if (source !== null) {
        for await (const chunk of chunksOf(source)) {
            if (!ArrayBuffer.isView(chunk)) throw new TypeError('Received non-Uint8Array chunk');
            await new Promise((done) => sent.write(chunk, done));
        }
    }
    sent.end();
}

async function perform(request) {
    let url = new URL(request.url), { method } = request, source = request._source;
    const headers = new Headers(request.headers);
    if (source !== null) request._used = true;
    if (!headers.has('accept')) headers.set('accept', '*/*');
    if (!headers.has('accept-language')) headers.set('accept-language', '*');
    if (!headers.has('user-agent')) headers.set('user-agent', 'node');
    if (!headers.has('sec-fetch-mode')) headers.set('sec-fetch-mode', request.mode);
    for (let count = 0; ; count++) {
        if (url.protocol === 'data:') return fromData(url);
        if (url.protocol === 'blob:') throw failed(new Error('not implemented... yet...'));
        if (url.protocol !== 'http:' && url.protocol !== 'https:') throw failed(new Error('unknown scheme'));
        if (source?.bytes !== undefined) headers.set('content-length', String(source.bytes.length));
        else if (source?.blob !== undefined) headers.set('content-length', String(source.blob.size));
        else if (source === null && ['POST', 'PUT', 'PATCH'].includes(method)) headers.set('content-length', '0');
        const answer = await exchange(request, url, method, [...headers], source);
        const location = answer.list.find(([name]) => name === 'location')?.[1];
        if (!REDIRECTS.has(answer.status) || location === undefined || request.redirect === 'manual') {
            return respond(answer, url, method, count > 0);
        }
        answer.cancel();
        if (request.redirect === 'error') throw failed(new Error('unexpected redirect'));
        if (count === MOST_REDIRECTS) throw failed(new Error('redirect count exceeded'));
        const next = new URL(location, url);
        if (!next.hash) next.hash = url.hash;
        if (answer.status === 303 && !['GET', 'HEAD'].includes(method) || [301, 302].includes(answer.status) && method === 'POST') {
            method = 'GET';
            source = null;
            for (const name of ['content-encoding', 'content-language', 'content-location', 'content-type', 'content-length']) headers.delete(name);
        } else if (source !== null && source.bytes === undefined && source.blob === undefined) {
            throw failed(new Error('Response body object should not be disturbed or locked'));
        }
        if (next.origin !== url.origin) for (const name of ['authorization', 'proxy-authorization', 'cookie', 'host']) headers.delete(name);
        url = next;
    }
}

function fromData(url) {
    const found = /^data:([^,]*?)(;base64)?,(.*)$/s.exec(url.href);
    if (!found) throw failed(new Error('invalid data URL'));
    const [, type, base64, text] = found;
    const bytes = base64 ? Buffer.from(decodeURIComponent(text), 'base64') : Buffer.from(decodeURIComponent(text));
    const response = new Response(bytes, { headers: { 'content-type': type || 'text/plain;charset=US-ASCII' } });
    return Object.assign(response, { url: url.href, type: 'basic' });
}

function respond({ status, list, stream, cancel }, url, method, redirected) {
    const response = new Response(null, { status: status < 200 ? 200 : status, statusText: STATUS[status] ?? '' });
    response.status = status;
    for (const [name, value] of list) response.headers.append(name, value);
    const shown = new URL(url);
    shown.hash = '';
    Object.assign(response, { url: shown.href, redirected, type: 'basic' });
    const empty = method === 'HEAD' || WITHOUT_BODY.has(status);
    if (!empty) {
        const encodings = response.headers.get('content-encoding')?.toLowerCase().split(/\s*,\s*/) ?? [];
        if (encodings.length > MOST_ENCODINGS) {
            cancel();
            throw failed(new Error(`too many content-encodings in response: ${encodings.length}, maximum allowed is ${MOST_ENCODINGS}`));
        }
        response._source = { stream: encodings.length === 0 ? stream : decoded(stream, encodings), type: null };
    }
    return response;
}

// Undoes the encodings of a body.
function decoded(stream, encodings) {
    const zlib = globalThis.__skillhost_require('node:zlib');
    const { Readable } = globalThis.__skillhost_require('node:stream');
    let from = Readable.fromWeb(stream);
    for (const encoding of encodings.reverse()) {
        const decoder = encoding === 'gzip' || encoding === 'x-gzip' ? zlib.createGunzip()
            : encoding === 'deflate' ? zlib.createInflate() : encoding === 'br' ? zlib.createBrotliDecompress() : undefined;
        if (decoder === undefined) break;
        from.on('error', (error) => decoder.destroy(error));
        from = from.pipe(decoder);
    }
    return Readable.toWeb(from);
}

const STATUS = {
    200: 'OK', 201: 'Created', 202: 'Accepted', 204: 'No Content', 206: 'Partial Content', 301: 'Moved Permanently', 302: 'Found', 303: 'See Other',
    304: 'Not Modified', 307: 'Temporary Redirect', 308: 'Permanent Redirect', 400: 'Bad Request', 401: 'Unauthorized', 403: 'Forbidden',
    404: 'Not Found', 405: 'Method Not Allowed', 409: 'Conflict', 410: 'Gone', 422: 'Unprocessable Entity', 429: 'Too Many Requests',
    500: 'Internal Server Error', 501: 'Not Implemented', 502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout',
};

export function fetch(input, init = undefined) {
    let request;
    try {
        if (arguments.length === 0) throw new TypeError('fetch requires at least 1 argument');
        request = new Request(input, init ?? {});
    } catch (error) {
        return Promise.reject(error);
    }
    if (request.signal?.aborted) return Promise.reject(abortReason(request.signal));
    return perform(request);
}
