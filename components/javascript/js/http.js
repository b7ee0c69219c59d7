// node:http: requests. A program of the sandbox cannot listen.

import { validateNumber, validateOneOf } from '__wasm_rquickjs_builtin/internal/validators';
import { EventEmitter } from 'node:events';
import { Buffer } from 'node:buffer';
import { URL, urlToHttpOptions } from 'node:url';
import { Exchange } from 'internal:http_exchange';
import { nextTick } from 'internal:event_loop';
import Readable from '__wasm_rquickjs_builtin/internal/streams/readable';
import Writable from '__wasm_rquickjs_builtin/internal/streams/writable';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';

const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;
const WRONG_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

export const METHODS = [
    'ACL', 'BIND', 'CHECKOUT', 'CONNECT', 'COPY', 'DELETE', 'GET', 'HEAD', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL',
    'MOVE', 'NOTIFY', 'OPTIONS', 'PATCH', 'POST', 'PROPFIND', 'PROPPATCH', 'PURGE', 'PUT', 'QUERY', 'REBIND', 'REPORT', 'SEARCH', 'SOURCE',
    'SUBSCRIBE', 'TRACE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE',
];

export const STATUS_CODES = {
    100: 'Continue', 101: 'Switching Protocols', 102: 'Processing', 103: 'Early Hints', 200: 'OK', 201: 'Created', 202: 'Accepted',
    203: 'Non-Authoritative Information', 204: 'No Content', 205: 'Reset Content', 206: 'Partial Content', 207: 'Multi-Status',
    208: 'Already Reported', 226: 'IM Used', 300: 'Multiple Choices', 301: 'Moved Permanently', 302: 'Found', 303: 'See Other',
    304: 'Not Modified', 305: 'Use Proxy', 307: 'Temporary Redirect', 308: 'Permanent Redirect', 400: 'Bad Request', 401: 'Unauthorized',
    402: 'Payment Required', 403: 'Forbidden', 404: 'Not Found', 405: 'Method Not Allowed', 406: 'Not Acceptable',
    407: 'Proxy Authentication Required', 408: 'Request Timeout', 409: 'Conflict', 410: 'Gone', 411: 'Length Required',
    412: 'Precondition Failed', 413: 'Payload Too Large', 414: 'URI Too Long', 415: 'Unsupported Media Type', 416: 'Range Not Satisfiable',
    417: 'Expectation Failed', 418: "I'm a Teapot", 421: 'Misdirected Request', 422: 'Unprocessable Entity', 423: 'Locked',
    424: 'Failed Dependency', 425: 'Too Early', 426: 'Upgrade Required', 428: 'Precondition Required', 429: 'Too Many Requests',
    431: 'Request Header Fields Too Large', 451: 'Unavailable For Legal Reasons', 500: 'Internal Server Error', 501: 'Not Implemented',
    502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout', 505: 'HTTP Version Not Supported', 506: 'Variant Also Negotiates',
    507: 'Insufficient Storage', 508: 'Loop Detected', 509: 'Bandwidth Limit Exceeded', 510: 'Not Extended', 511: 'Network Authentication Required',
};

export const maxHeaderSize = 16384;

function coded(Class, code, message) {
    return Object.assign(new Class(message), { code });
}

export function validateHeaderName(name, label = 'Header name') {
    if (typeof name !== 'string' || !TOKEN.test(name)) {
        throw coded(TypeError, 'ERR_INVALID_HTTP_TOKEN', `${label} must be a valid HTTP token ["${name}"]`);
    }
}

export function validateHeaderValue(name, value) {
    if (value === undefined) throw coded(TypeError, 'ERR_HTTP_INVALID_HEADER_VALUE', `Invalid value "${value}" for header "${name}"`);
    if (WRONG_VALUE.test(value)) throw coded(TypeError, 'ERR_INVALID_CHAR', `Invalid character in header content ["${name}"]`);
}

// What libraries ask of a connection.
class Socket extends EventEmitter {
    encrypted;
    readable = true;
    writable = true;
    destroyed = false;
    connecting = false;
    #message;

    constructor(message, https) {
        super();
        this.#message = message;
        if (https) {
            this.encrypted = true;
            this.authorized = true;
        }
    }

    setTimeout(milliseconds, callback) {
        this.#message.setTimeout(milliseconds, callback);
        return this;
    }

    setKeepAlive() { return this; }
    setNoDelay() { return this; }
    ref() { return this; }
    unref() { return this; }
    cork() {}
    uncork() {}
    end() { return this; }
    pause() { return this; }
    resume() { return this; }

    destroy(error) {
        this.destroyed = true;
        this.#message.destroy(error);
        return this;
    }
}

export class IncomingMessage extends Readable {
    constructor(socket) {
        super({ highWaterMark: 65536 });
        this.socket = this.connection = socket;
        this.httpVersion = '1.1';
        this.httpVersionMajor = 1;
        this.httpVersionMinor = 1;
        this.complete = false;
        this.aborted = false;
        this.rawHeaders = [];
        this.rawTrailers = [];
        this.trailers = {};
        this.url = '';
        this.method = null;
        this.statusCode = null;
        this.statusMessage = null;
        this.joinDuplicateHeaders = false;
    }

    get headers() {
        if (this._headers === undefined) {
            const headers = {};
            for (let at = 0; at < this.rawHeaders.length; at += 2) this.#add(headers, this.rawHeaders[at].toLowerCase(), this.rawHeaders[at + 1]);
            Object.defineProperty(this, '_headers', { value: headers, writable: true, enumerable: false });
        }
        return this._headers;
    }

    set headers(value) {
        Object.defineProperty(this, '_headers', { value, writable: true, enumerable: false });
    }

    get headersDistinct() {
        const headers = Object.create(null);
        for (let at = 0; at < this.rawHeaders.length; at += 2) (headers[this.rawHeaders[at].toLowerCase()] ??= []).push(this.rawHeaders[at + 1]);
        return headers;
    }

    #add(headers, name, value) {
        if (name === 'set-cookie') (headers[name] ??= []).push(value);
        else if (headers[name] === undefined) headers[name] = value;
        else if (name === 'cookie') headers[name] += `; ${value}`;
        else if (!FIRST_ONLY.has(name)) headers[name] += `, ${value}`;
    }

    setTimeout(milliseconds, callback) {
        this.req?.setTimeout(milliseconds, callback);
        return this;
    }

    _read() {
        this._exchange?.read();
    }

    _destroy(error, callback) {
        if (!this.readableEnded || !this.complete) {
            this.aborted = !this.complete;
            this._exchange?.close();
            if (!this.complete && this.req && !error) {
                // As when the other side is cut off.
                this.emit('aborted');
            }
        }
        callback(error);
    }
}

// Of these, repeated headers are ignored.
const FIRST_ONLY = new Set([
    'age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host', 'if-modified-since', 'if-unmodified-since',
    'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent',
]);

export class OutgoingMessage extends Writable {
    _names = new Map();
    headersSent = false;
    sendDate = false;
    finished = false;

    setHeader(name, value) {
        if (this.headersSent) throw coded(Error, 'ERR_HTTP_HEADERS_SENT', 'Cannot set headers after they are sent to the client');
        validateHeaderName(name);
        if (Array.isArray(value)) for (const one of value) validateHeaderValue(name, one);
        else validateHeaderValue(name, value);
        this._names.set(name.toLowerCase(), [name, value]);
        return this;
    }

    setHeaders(headers) {
        for (const [name, value] of headers) this.setHeader(name, value);
        return this;
    }

    appendHeader(name, value) {
        const old = this.getHeader(name);
        return this.setHeader(name, old === undefined ? value : [].concat(old, value));
    }

    getHeader(name) {
        return this._names.get(String(name).toLowerCase())?.[1];
    }

    hasHeader(name) {
        return this._names.has(String(name).toLowerCase());
    }

    removeHeader(name) {
        if (this.headersSent) throw coded(Error, 'ERR_HTTP_HEADERS_SENT', 'Cannot remove headers after they are sent to the client');
        this._names.delete(String(name).toLowerCase());
    }

    getHeaders() {
        const headers = Object.create(null);
        for (const [key, [, value]] of this._names) headers[key] = value;
        return headers;
    }

    getHeaderNames() {
        return [...this._names.keys()];
    }

    getRawHeaderNames() {
        return [...this._names.values()].map(([name]) => name);
    }

    addTrailers() {}
    flushHeaders() {}
}

export class ClientRequest extends OutgoingMessage {
    #exchange = null;
    #chunks = [];
    #timer = null;
    #idle = 0;
    aborted = false;
    reusedSocket = false;
    maxHeadersCount = null;
    res = null;

    constructor(input, options, callback) {
        super({ decodeStrings: true, autoDestroy: false });
        if (typeof input === 'string' || input instanceof URL) {
            const url = typeof input === 'string' ? new URL(input) : input;
            options = { ...urlToHttpOptions(url), ...(typeof options === 'function' ? {} : options) };
            if (typeof arguments[1] === 'function') callback = arguments[1];
        } else {
            if (typeof options === 'function') callback = options;
            options = input ?? {};
        }
        const agent = options.agent === undefined || options.agent === false ? options._defaultAgent ?? globalAgent : options.agent ?? globalAgent;
        const protocol = options.protocol || agent.protocol || options._defaultAgent?.protocol || 'http:';
        const expected = agent.protocol ?? 'http:';
        if (protocol !== expected && options.agent == null) {
            throw coded(TypeError, 'ERR_INVALID_PROTOCOL', `Protocol "${protocol}" not supported. Expected "${expected}"`);
        }
        if (options.path !== undefined && /[^\x21-\xff]/.test(String(options.path))) {
            throw coded(TypeError, 'ERR_UNESCAPED_CHARACTERS', 'Request path contains unescaped characters');
        }
        if (options.method != null && typeof options.method !== 'string') throw new ERR_INVALID_ARG_TYPE('options.method', 'string', options.method);
        this.method = (options.method || 'GET').toUpperCase();
        if (!TOKEN.test(this.method)) throw coded(TypeError, 'ERR_INVALID_HTTP_TOKEN', `Method must be a valid HTTP token ["${this.method}"]`);
        this.agent = agent;
        this.protocol = protocol;
        this.host = options.hostname || options.host || 'localhost';
        const defaultPort = options.defaultPort ?? agent.defaultPort ?? (protocol === 'https:' ? 443 : 80);
        this.port = options.port || defaultPort;
        this.path = options.path || '/';
        this.maxHeaderSize = options.maxHeaderSize;
        this._options = options;
        const { headers } = options;
        if (Array.isArray(headers)) {
            if (Array.isArray(headers[0])) for (const [name, value] of headers) this.setHeader(name, value);
            else for (let at = 0; at < headers.length; at += 2) this.appendHeader(headers[at], headers[at + 1]);
        } else if (headers) {
            for (const name of Object.keys(headers)) this.setHeader(name, headers[name]);
        }
        if (options.auth && !this.hasHeader('authorization')) this.setHeader('Authorization', `Basic ${Buffer.from(options.auth).toString('base64')}`);
        if (!this.hasHeader('host') && options.setHost !== false) {
            const host = this.host.includes(':') && !this.host.startsWith('[') ? `[${this.host}]` : this.host;
            this.setHeader('Host', Number(this.port) === defaultPort ? host : `${host}:${this.port}`);
        }
        if (callback) this.once('response', callback);
        this.socket = this.connection = new Socket(this, protocol === 'https:');
        const timeout = options.timeout ?? agent.options?.timeout;
        if (timeout) this.setTimeout(timeout);
        const { signal } = options;
        if (signal) {
            const abort = () => this.destroy(Object.assign(new Error('The operation was aborted', { cause: signal.reason }), { name: 'AbortError', code: 'ABORT_ERR' }));
            if (signal.aborted) nextTick(abort);
            else {
                signal.addEventListener('abort', abort, { once: true });
                this.once('close', () => signal.removeEventListener('abort', abort));
            }
        }
        nextTick(() => {
            if (this.destroyed) return;
            this.emit('socket', this.socket);
            this.socket.emit('connect');
            if (protocol === 'https:') this.socket.emit('secureConnect');
        });
    }

    #begin(length) {
        if (this.#exchange !== null || this.destroyed) return;
        this.headersSent = true;
        const headers = [];
        for (const [, [name, value]] of this._names) {
            for (const one of Array.isArray(value) ? value : [value]) headers.push([name, String(one)]);
        }
        if (length !== undefined && !this.hasHeader('content-length') && (length > 0 || !['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'].includes(this.method))) {
            headers.push(['content-length', String(length)]);
        }
        const host = this.host.includes(':') && !this.host.startsWith('[') ? `[${this.host}]` : this.host;
        let url;
        try {
            url = new URL(`${this.protocol}//${host}:${this.port}`);
        } catch (error) {
            this.destroy(error);
            return;
        }
        const at = this.path.indexOf('?');
        const [pathname, search] = at < 0 ? [this.path, ''] : [this.path.slice(0, at), this.path.slice(at)];
        this.#exchange = new Exchange({ protocol: url.protocol, host: url.host, pathname, search }, this.method, headers, {
            answer: (status, list) => this.#answer(status, list),
            data: (bytes) => {
                this.#touch();
                this.res.push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
            },
            end: () => {
                this.#clear();
                this.res.complete = true;
                this.res.push(null);
                this.#close();
            },
            error: (failure) => this.#fail(failure),
        });
    }

    #fail({ code, message }) {
        this.#clear();
        const error = Object.assign(new Error(message), { code });
        const syscall = /^(connect|getaddrinfo)/.exec(message)?.[1];
        if (syscall) Object.assign(error, { errno: { ECONNREFUSED: -111, ENOTFOUND: -3008, ETIMEDOUT: -110 }[code], syscall });
        if (code === 'ENOTFOUND') error.hostname = this.host;
        if (this.res !== null) {
            this.res.aborted = true;
            this.res.emit('aborted');
            this.res.destroy(Object.assign(error, { message: 'aborted', code: 'ECONNRESET' }));
            this.#close();
        } else {
            this.destroy(error);
        }
    }

    #answer(status, list) {
        this.#touch();
        const message = new IncomingMessage(this.socket);
        message.statusCode = status;
        message.statusMessage = STATUS_CODES[status] ?? '';
        message.rawHeaders = list.flat();
        message.req = this;
        Object.defineProperty(message, '_exchange', { value: this.#exchange, enumerable: false });
        this.res = message;
        if (!this.emit('response', message)) message.resume();
    }

    #close() {
        if (this._closed) return;
        this._closed = true;
        nextTick(() => {
            this.destroyed = true;
            this.emit('close');
            this.socket.emit('close', false);
        });
    }

    // The body is kept until its end or a piece of size, so that its length is known if possible.
    _write(chunk, encoding, callback) {
        if (this.#exchange === null && !this.hasHeader('transfer-encoding') && this.#chunks.length === 0 && chunk.length <= 65536) {
            this.#chunks.push(chunk);
            callback();
            return;
        }
        this.#begin();
        const held = this.#chunks.splice(0);
        if (this.#exchange === null) {
            callback();
            return;
        }
        this.#exchange.write(held.length > 0 ? Buffer.concat([...held, chunk]) : chunk, callback);
    }

    _final(callback) {
        this.finished = true;
        if (this.#exchange !== null) {
            this.#exchange.end();
            callback();
            return;
        }
        const body = Buffer.concat(this.#chunks.splice(0));
        this.#begin(body.length);
        const exchange = this.#exchange;
        if (exchange === null) {
            callback();
            return;
        }
        if (body.length === 0) {
            exchange.end();
            callback();
            return;
        }
        exchange.write(body, () => {
            exchange.end();
            callback();
        });
    }

    _destroy(error, callback) {
        this.#clear();
        this.#exchange?.close();
        if (this.res !== null && !this.res.complete) this.res.destroy(error ?? undefined);
        this.socket.destroyed = true;
        if (!error && this.res === null) error = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
        this._closed = true;
        callback(error);
        nextTick(() => this.socket.emit('close', Boolean(error)));
    }

    flushHeaders() {
        if (!this.writableEnded) this.#begin();
    }

    abort() {
        if (this.aborted) return;
        this.aborted = true;
        nextTick(() => this.emit('abort'));
        this.destroy();
    }

    setTimeout(milliseconds, callback) {
        if (callback) this.once('timeout', callback);
        this.#idle = milliseconds;
        this.timeout = milliseconds;
        this.#touch();
        return this;
    }

    #touch() {
        this.#clear();
        if (this.#idle > 0 && !this.destroyed) {
            this.#timer = globalThis.setTimeout(() => {
                this.emit('timeout');
                this.socket.emit('timeout');
            }, this.#idle);
            this.#timer.unref();
        }
    }

    #clear() {
        globalThis.clearTimeout(this.#timer);
        this.#timer = null;
    }

    setNoDelay() {}
    setSocketKeepAlive() {}
    onSocket() {}
    clearTimeout(callback) {
        this.setTimeout(0, callback);
    }
}

export function Agent(options) {
    if (!(this instanceof Agent)) return new Agent(options);
    Reflect.apply(EventEmitter, this, []);
    this.options = { __proto__: null, noDelay: true, path: null, ...options };
    this.defaultPort = 80;
    this.protocol = 'http:';
    this.keepAlive = this.options.keepAlive || false;
    this.keepAliveMsecs = this.options.keepAliveMsecs || 1000;
    this.maxSockets = this.options.maxSockets || Infinity;
    this.maxFreeSockets = this.options.maxFreeSockets || 256;
    this.maxTotalSockets = this.options.maxTotalSockets ?? Infinity;
    this.totalSocketCount = 0;
    this.scheduling = this.options.scheduling || 'lifo';
    validateOneOf(this.scheduling, 'scheduling', ['fifo', 'lifo']);
    validateNumber(this.maxTotalSockets, 'maxTotalSockets', 1);
    this.requests = { __proto__: null };
    this.sockets = { __proto__: null };
    this.freeSockets = { __proto__: null };
}
Object.setPrototypeOf(Agent.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Agent, EventEmitter);
Agent.defaultMaxSockets = Infinity;

Agent.prototype.getName = function getName(options = {}) {
    let name = `${options.host || 'localhost'}:${options.port || ''}:${options.localAddress || ''}`;
    // The family is only there for the two that exist.
    if (options.family === 4 || options.family === 6) name += `:${options.family}`;
    if (options.socketPath) name += `:${options.socketPath}`;
    return name;
};

Agent.prototype.destroy = function destroy() {};

export const globalAgent = new Agent({ keepAlive: true, scheduling: 'lifo', timeout: 5000 });
globalAgent.options.timeout = undefined;

export function request(input, options, callback) {
    return new ClientRequest(input, options, callback);
}

export function get(input, options, callback) {
    const sent = request(input, options, callback);
    sent.end();
    return sent;
}

export class ServerResponse extends OutgoingMessage {}

// Listening fails clearly.
export class Server extends EventEmitter {
    listening = false;

    listen(...args) {
        const error = Object.assign(new Error('listen EACCES: a program of the sandbox cannot accept connections'), { errno: -13, code: 'EACCES', syscall: 'listen' });
        nextTick(() => this.emit('error', error));
        return this;
    }

    address() { return null; }
    setTimeout() { return this; }
    closeAllConnections() {}
    closeIdleConnections() {}
    ref() { return this; }
    unref() { return this; }

    close(callback) {
        const error = coded(Error, 'ERR_SERVER_NOT_RUNNING', 'Server is not running.');
        if (callback) nextTick(callback, error);
        return this;
    }
}

export function createServer() {
    return new Server();
}

export function setMaxIdleHTTPParsers() {}

export default {
    METHODS, STATUS_CODES, maxHeaderSize, validateHeaderName, validateHeaderValue, Agent, globalAgent, ClientRequest, IncomingMessage, OutgoingMessage,
    Server, ServerResponse, createServer, request, get, setMaxIdleHTTPParsers,
};
