// node:http: requests. A program of the sandbox cannot listen.

import { EventEmitter } from 'node:events';
import { Buffer } from 'node:buffer';
import { URL, urlToHttpOptions } from 'node:url';
import { Exchange } from 'internal:http_exchange';
import { nextTick } from 'internal:event_loop';
import { IncomingMessage, OutgoingMessage, ServerResponse, STATUS_CODES, validateHeaderName, validateHeaderValue } from 'internal:http_messages';
import { connectRequest } from 'internal:http_connection';
import { _checkIsHttpToken, continueExpression, parsers } from 'node:_http_common';
import { debuglog } from '__wasm_rquickjs_builtin/internal/util/debuglog';
import Writable from '__wasm_rquickjs_builtin/internal/streams/writable';
import { ERR_INVALID_ARG_TYPE } from '__wasm_rquickjs_builtin/internal/errors';
import { validateBoolean, validateInteger, validateNumber, validateOneOf } from '__wasm_rquickjs_builtin/internal/validators';

export { IncomingMessage, OutgoingMessage, ServerResponse, STATUS_CODES, validateHeaderName, validateHeaderValue };

export const METHODS = [
    'ACL', 'BIND', 'CHECKOUT', 'CONNECT', 'COPY', 'DELETE', 'GET', 'HEAD', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL',
    'MOVE', 'NOTIFY', 'OPTIONS', 'PATCH', 'POST', 'PROPFIND', 'PROPPATCH', 'PURGE', 'PUT', 'QUERY', 'REBIND', 'REPORT', 'SEARCH', 'SOURCE',
    'SUBSCRIBE', 'TRACE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE',
];

function coded(Class, code, message) {
    return Object.assign(new Class(message), { code });
}

const debug = debuglog('http');
if (debug.enabled) {
    globalThis.process.emitWarning("Setting the NODE_DEBUG environment variable to 'http' can expose sensitive data (such as passwords, tokens and " +
        'authentication headers) in the resulting log.');
}

// A connection that the host makes: what libraries ask of one. Its request sends over the host.
class HostSocket extends EventEmitter {
    encrypted;
    readable = true;
    writable = true;
    destroyed = false;
    connecting = false;
    #message;

    constructor(https) {
        super();
        if (https) {
            this.encrypted = true;
            this.authorized = true;
        }
    }

    // Begins to serve a request.
    serve(message) {
        this.#message = message;
    }

    setTimeout(milliseconds, callback) {
        this.#message?.setTimeout(milliseconds, callback);
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
        if (this.destroyed) return this;
        this.destroyed = true;
        if (this.#message) this.#message.destroy(error);
        else nextTick(() => this.emit('close', Boolean(error)));
        return this;
    }
}

function validateHost(host, name) {
    if (host !== null && host !== undefined && typeof host !== 'string') throw new ERR_INVALID_ARG_TYPE(`options.${name}`, ['string', 'undefined', 'null'], host);
    return host;
}

// The options of a request, from all that `request` takes.
function optionsOf(input, options, callback) {
    if (typeof input === 'string') input = urlToHttpOptions(new URL(input));
    else if (input instanceof URL) input = urlToHttpOptions(input);
    else [callback, options, input] = [options, input, null];
    if (typeof options === 'function') [callback, options] = [options, input ?? {}];
    else options = { ...input, ...options };
    return [options, callback];
}

function agentOf(options) {
    const standard = options._defaultAgent ?? globalAgent;
    const { agent } = options;
    if (agent === false) return new standard.constructor();
    if (agent === null || agent === undefined) return typeof options.createConnection === 'function' ? undefined : standard;
    if (typeof agent.addRequest !== 'function') throw new ERR_INVALID_ARG_TYPE('options.agent', ['Agent-like Object', 'undefined', 'false'], agent);
    return agent;
}

// Whether an agent connects in the way of node:http, and not in one of its own.
function isStandard(agent) {
    return ['addRequest', 'createSocket', 'createConnection'].every((name) => agent[name] === Agent.prototype[name]);
}

const WITHOUT_BODY = ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'];

export class ClientRequest extends OutgoingMessage {
    // The body for the host, once it is known that the host sends it.
    #body = null;
    // What was written before it is known.
    #waiting = [];
    #raw = false;
    #exchange = null;
    #chunks = [];
    #timer = null;
    #idle = 0;

    constructor(input, options, callback) {
        super();
        this.aborted = false;
        this.reusedSocket = false;
        this.maxHeadersCount = null;
        this.res = null;
        [options, callback] = optionsOf(input, options, callback);
        const agent = agentOf(options);
        const protocol = options.protocol || agent?.protocol || options._defaultAgent?.protocol || 'http:';
        const expected = agent?.protocol ?? protocol;
        if (options.path !== undefined && /[^\x21-\xff]/.test(String(options.path))) {
            throw coded(TypeError, 'ERR_UNESCAPED_CHARACTERS', 'Request path contains unescaped characters');
        }
        if (protocol !== expected && (options.agent === undefined || options.agent === null)) {
            throw coded(TypeError, 'ERR_INVALID_PROTOCOL', `Protocol "${protocol}" not supported. Expected "${expected}"`);
        }
        const defaultPort = options.defaultPort || agent?.defaultPort;
        const port = options.port = options.port || defaultPort || (protocol === 'https:' ? 443 : 80);
        const host = options.host = validateHost(options.hostname, 'hostname') || validateHost(options.host, 'host') || 'localhost';
        if (options.method !== undefined && options.method !== null && typeof options.method !== 'string') {
            throw new ERR_INVALID_ARG_TYPE('options.method', 'string', options.method);
        }
        this.method = (options.method || 'GET').toUpperCase();
        if (!_checkIsHttpToken(this.method)) throw coded(TypeError, 'ERR_INVALID_HTTP_TOKEN', `Method must be a valid HTTP token ["${options.method}"]`);
        if (options.maxHeaderSize !== undefined) validateInteger(options.maxHeaderSize, 'maxHeaderSize', 0);
        if (options.insecureHTTPParser !== undefined) validateBoolean(options.insecureHTTPParser, 'options.insecureHTTPParser');
        if (options.joinDuplicateHeaders !== undefined) validateBoolean(options.joinDuplicateHeaders, 'options.joinDuplicateHeaders');
        Object.assign(this, {
            agent, protocol, host, port, path: options.path || '/', socketPath: options.socketPath, maxHeaderSize: options.maxHeaderSize,
            insecureHTTPParser: options.insecureHTTPParser, joinDuplicateHeaders: options.joinDuplicateHeaders,
        });
        this.useChunkedEncodingByDefault = !WITHOUT_BODY.includes(this.method);
        if (!agent || !agent.keepAlive) {
            this._last = true;
            this.shouldKeepAlive = false;
        }
        this.#setHeaders(options, host, port, defaultPort);
        if (callback) this.once('response', callback);
        this.#connect(options, agent);
        const timeout = options.timeout ?? agent?.options?.timeout;
        if (timeout) this.setTimeout(timeout);
        this.#abortBy(options.signal);
    }

    #setHeaders(options, host, port, defaultPort) {
        const { headers } = options;
        if (Array.isArray(headers?.host)) throw new ERR_INVALID_ARG_TYPE('options.headers.host', 'string', headers.host);
        if (Array.isArray(headers)) {
            if (Array.isArray(headers[0])) for (const [name, value] of headers) this.setHeader(name, value);
            else for (let at = 0; at < headers.length; at += 2) this.appendHeader(headers[at], headers[at + 1]);
        } else if (headers) {
            for (const name of Object.keys(headers)) this.setHeader(name, headers[name]);
        }
        if (options.auth && !this.hasHeader('authorization')) this.setHeader('Authorization', `Basic ${Buffer.from(options.auth).toString('base64')}`);
        if (!this.hasHeader('host') && options.setHost !== false) {
            const name = host.includes(':') && !host.startsWith('[') ? `[${host}]` : host;
            this.setHeader('Host', Number(port) === Number(defaultPort) ? name : `${name}:${port}`);
        }
        if (this.hasHeader('expect')) this._implicitHeader();
    }

    #abortBy(signal) {
        if (!signal) return;
        const abort = () => this.destroy(Object.assign(new Error('The operation was aborted', { cause: signal.reason }), { name: 'AbortError', code: 'ABORT_ERR' }));
        if (signal.aborted) {
            nextTick(abort);
            return;
        }
        signal.addEventListener('abort', abort, { once: true });
        this.once('close', () => signal.removeEventListener('abort', abort));
    }

    // Gets a connection: most requests one of the host, and those with a function or an agent of the program what these return.
    #connect(options, agent) {
        if (agent && isStandard(agent)) {
            this.#overHost(new HostSocket(this.protocol === 'https:'));
            nextTick(() => this.#connected());
        } else if (agent) {
            agent.addRequest(this, options);
        } else {
            this._last = true;
            this.shouldKeepAlive = false;
            const created = (error, socket) => this.onSocket(socket, error);
            try {
                const socket = options.createConnection(options, created);
                if (socket) created(null, socket);
            } catch (error) {
                created(error);
            }
        }
    }

    #overHost(socket) {
        this.socket = socket;
        socket.serve(this);
        this.#body = new Writable({
            decodeStrings: true,
            autoDestroy: false,
            write: (chunk, encoding, callback) => this.#writeBody(chunk, callback),
            final: (callback) => this.#finishBody(callback),
        });
        this.#body.on('drain', () => this.emit('drain')).on('prefinish', () => this.emit('prefinish')).on('error', (error) => this.destroy(error));
        this.outputData = [];
        this.outputSize = 0;
        for (const send of this.#waiting.splice(0)) send();
    }

    #connected() {
        if (this.destroyed) return;
        this.emit('socket', this.socket);
        if (!(this.socket instanceof HostSocket)) return;
        this.socket.emit('connect');
        if (this.protocol === 'https:') this.socket.emit('secureConnect');
        // The host does not send `Expect`. The program would wait for the permission to send the body.
        if (continueExpression.test(this.getHeader('expect') ?? '')) nextTick(() => this.destroyed || this.emit('continue'));
    }

    onSocket(socket, error) {
        nextTick(() => {
            if (this.destroyed || error) {
                socket?.destroy?.(error);
                if (!this.destroyed) this.destroy(error);
                return;
            }
            if (socket instanceof HostSocket) {
                this.#overHost(socket);
                this.#connected();
                return;
            }
            this.#raw = true;
            this.socket = socket;
            connectRequest(this, socket, () => this.#touch());
            this.emit('socket', socket);
            this._flush();
            for (const send of this.#waiting.splice(0)) send();
        });
    }

    _implicitHeader() {
        this._storeHeader(`${this.method} ${this.path} HTTP/1.1\r\n`);
    }

    _writeBody(chunk, encoding, callback, length, fromEnd) {
        const send = () => {
            if (this.#body !== null) return this.#body.write(chunk, encoding, callback);
            return super._writeBody(chunk, encoding, callback, length, fromEnd);
        };
        if (this.#body !== null || this.#raw) return send();
        this.#waiting.push(send);
        return true;
    }

    _endBody(chunk, finish) {
        const send = () => {
            if (this.#body !== null) this.#body.end(finish);
            else super._endBody(chunk, finish);
        };
        if (this.#body !== null || this.#raw) send();
        else this.#waiting.push(send);
    }

    get writableLength() {
        return this.#body?.writableLength ?? super.writableLength;
    }

    get writableFinished() {
        return this.#body !== null ? this.finished && this.#body.writableFinished : super.writableFinished;
    }

    get writableNeedDrain() {
        return this.#body?.writableNeedDrain ?? super.writableNeedDrain;
    }

    #begin(length) {
        if (this.#exchange !== null || this.destroyed) return;
        if (!this._header) this._implicitHeader();
        const headers = [];
        const values = this.getHeaders();
        for (const name of this.getRawHeaderNames()) {
            const value = values[name.toLowerCase()];
            for (const one of Array.isArray(value) ? value : [value]) headers.push([name, String(one)]);
        }
        if (length !== undefined && !this.hasHeader('content-length') && (length > 0 || !WITHOUT_BODY.includes(this.method))) {
            headers.push(['content-length', String(length)]);
        }
        const host = this.host.includes(':') && !this.host.startsWith('[') ? `[${this.host}]` : this.host;
        // There is no name with such a part.
        if (/(?:^|\.)[^.]{64}/.test(host) && !host.startsWith('[')) {
            this.#fail({ code: 'ENOTFOUND', message: `getaddrinfo ENOTFOUND ${host}` });
            return;
        }
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
        Object.assign(message, { httpVersion: '1.1', httpVersionMajor: 1, httpVersionMinor: 1, statusCode: status, statusMessage: STATUS_CODES[status] ?? '' });
        message.rawHeaders = list.flat();
        message.joinDuplicateHeaders = this.joinDuplicateHeaders ?? false;
        message.req = this;
        Object.defineProperty(message, '_exchange', { value: this.#exchange, enumerable: false });
        this.res = message;
        if (!this.emit('response', message)) message._dump();
    }

    #close() {
        if (this._closed) return;
        this._closed = true;
        nextTick(() => {
            this.destroyed = true;
            this.emit('close');
            this.socket.destroyed = true;
            this.socket.emit('close', false);
        });
    }

    // The body is kept until its end or a piece of size, so that its length is known if possible.
    #writeBody(chunk, callback) {
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

    #finishBody(callback) {
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

    destroy(error) {
        if (this.destroyed) return this;
        if (this.#raw) {
            this.#clear();
            super.destroy(error);
            this.res?._dump();
            return this;
        }
        this.destroyed = true;
        this.#clear();
        this.#exchange?.close();
        this.#body?.destroy();
        if (this.res !== null && !this.res.complete) this.res.destroy(error ?? undefined);
        if (!error && this.res === null) error = Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
        const { socket } = this;
        if (socket) socket.destroyed = true;
        this._closed = true;
        nextTick(() => {
            if (error) this.emit('error', error);
            this.emit('close');
            socket?.emit('close', Boolean(error));
        });
        return this;
    }

    flushHeaders() {
        if (this.finished) return;
        const send = () => (this.#body !== null ? this.#begin() : super.flushHeaders());
        if (this.#body !== null || this.#raw) send();
        else this.#waiting.push(send);
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
                this.socket?.emit('timeout');
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

// Gets a connection for a request, now or when another one has ended.
Agent.prototype.addRequest = function addRequest(request, options, port, localAddress) {
    if (typeof options === 'string') options = { host: options, port, localAddress };
    options = { ...options, ...this.options };
    if (options.socketPath) options.path = options.socketPath;
    const name = this.getName(options);
    this.sockets[name] ??= [];
    if (this.sockets[name].length >= this.maxSockets || this.totalSocketCount >= this.maxTotalSockets) {
        (this.requests[name] ??= []).push(request);
        requestOptions.set(request, options);
        return;
    }
    this.createSocket(request, options, (error, socket) => request.onSocket(socket, error));
};
const requestOptions = new WeakMap();

Agent.prototype.createSocket = function createSocket(request, options, callback) {
    options = { ...options, ...this.options };
    if (options.socketPath) options.path = options.socketPath;
    const name = this.getName(options);
    options._agentKey = name;
    let done = false;
    const created = (error, socket) => {
        if (done) return;
        done = true;
        if (!error) {
            (this.sockets[name] ??= []).push(socket);
            this.totalSocketCount += 1;
            socket.on('close', () => this.removeSocket(socket, options));
        }
        callback(error, socket);
    };
    const socket = this.createConnection(options, created);
    if (socket) created(null, socket);
};

Agent.prototype.createConnection = function createConnection() {
    return new HostSocket(this.protocol === 'https:');
};

Agent.prototype.removeSocket = function removeSocket(socket, options) {
    const name = this.getName(options);
    const list = this.sockets[name] ?? [];
    const at = list.indexOf(socket);
    if (at >= 0) {
        list.splice(at, 1);
        this.totalSocketCount -= 1;
        if (list.length === 0) delete this.sockets[name];
    }
    const request = this.requests[name]?.shift();
    if (this.requests[name]?.length === 0) delete this.requests[name];
    if (request && !request.destroyed) this.addRequest(request, requestOptions.get(request));
};

Agent.prototype.keepSocketAlive = function keepSocketAlive(socket) {
    socket.setKeepAlive?.(true, this.keepAliveMsecs);
    socket.unref?.();
    return true;
};

Agent.prototype.reuseSocket = function reuseSocket(socket, request) {
    request.reusedSocket = true;
    socket.ref?.();
};

Agent.prototype.destroy = function destroy() {
    for (const list of [...Object.values(this.freeSockets), ...Object.values(this.sockets)]) for (const socket of [...list]) socket.destroy?.();
};

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

export function setMaxIdleHTTPParsers(max) {
    validateInteger(max, 'max', 1);
    parsers.max = max;
}

// What `--max-http-header-size` says, here or in NODE_OPTIONS.
function headerSize() {
    const { execArgv, env } = globalThis.process;
    for (const text of [execArgv.join(' '), env.NODE_OPTIONS ?? '']) {
        const last = [...text.matchAll(/(?:^| )--max-http-header-size[= ](\d+)/g)].at(-1);
        if (last) return Number(last[1]);
    }
    return 16384;
}
export const maxHeaderSize = headerSize();

const { WebSocket, MessageEvent } = globalThis;
export { WebSocket, MessageEvent };

export default {
    METHODS, STATUS_CODES, maxHeaderSize, validateHeaderName, validateHeaderValue, Agent, globalAgent, ClientRequest, IncomingMessage, OutgoingMessage,
    Server, ServerResponse, createServer, request, get, setMaxIdleHTTPParsers, WebSocket, MessageEvent,
};
