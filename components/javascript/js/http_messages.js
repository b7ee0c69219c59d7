// The messages of node:http: what is received, and what is sent over a connection.

import { Buffer } from 'node:buffer';
import { nextTick } from 'internal:event_loop';
import Readable from '__wasm_rquickjs_builtin/internal/streams/readable';
import { Stream } from '__wasm_rquickjs_builtin/internal/streams/legacy';
import { getDefaultHighWaterMark } from '__wasm_rquickjs_builtin/internal/streams/state';
import {
    ERR_HTTP_BODY_NOT_ALLOWED, ERR_HTTP_CONTENT_LENGTH_MISMATCH, ERR_HTTP_HEADERS_SENT, ERR_HTTP_INVALID_HEADER_VALUE, ERR_HTTP_SOCKET_ASSIGNED,
    ERR_HTTP_TRAILER_INVALID, ERR_INVALID_ARG_TYPE, ERR_INVALID_HTTP_TOKEN, ERR_METHOD_NOT_IMPLEMENTED, ERR_STREAM_ALREADY_FINISHED,
    ERR_STREAM_CANNOT_PIPE, ERR_STREAM_DESTROYED, ERR_STREAM_NULL_VALUES, ERR_STREAM_WRITE_AFTER_END,
} from '__wasm_rquickjs_builtin/internal/errors';
import { _checkInvalidHeaderChar, _checkIsHttpToken, chunkExpression } from 'node:_http_common';

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

function invalidCharacter(where, name) {
    return Object.assign(new TypeError(`Invalid character in ${where}${name === undefined ? '' : ` ["${name}"]`}`), { code: 'ERR_INVALID_CHAR' });
}

export function validateHeaderName(name, label) {
    if (typeof name !== 'string' || !name || !_checkIsHttpToken(name)) throw new ERR_INVALID_HTTP_TOKEN(label || 'Header name', name);
}

export function validateHeaderValue(name, value) {
    if (value === undefined) throw new ERR_HTTP_INVALID_HEADER_VALUE(value, name);
    if (_checkInvalidHeaderChar(value)) throw invalidCharacter('header content', name);
}

function hidden(object, name, value) {
    Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false });
}

// Of these, repeated headers are ignored.
const FIRST_ONLY = new Set([
    'age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host', 'if-modified-since', 'if-unmodified-since',
    'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent',
]);

export function IncomingMessage(socket) {
    if (!(this instanceof IncomingMessage)) return new IncomingMessage(socket);
    Reflect.apply(Readable, this, [{ highWaterMark: socket?.readableHighWaterMark ?? 65536 }]);
    this.socket = socket;
    this.httpVersionMajor = null;
    this.httpVersionMinor = null;
    this.httpVersion = null;
    this.complete = false;
    this.rawHeaders = [];
    this.rawTrailers = [];
    this.joinDuplicateHeaders = false;
    this.aborted = false;
    this.upgrade = null;
    this.url = '';
    this.method = null;
    this.statusCode = null;
    this.statusMessage = null;
    this.client = socket;
    hidden(this, '_headers', undefined);
    hidden(this, '_trailers', undefined);
    hidden(this, '_dumped', false);
}
Object.setPrototypeOf(IncomingMessage.prototype, Readable.prototype);
Object.setPrototypeOf(IncomingMessage, Readable);

function collect(message, raw) {
    const fields = {};
    for (let at = 0; at < raw.length; at += 2) message._addHeaderLine(raw[at], raw[at + 1], fields);
    return fields;
}

function collectDistinct(message, raw) {
    const fields = Object.create(null);
    for (let at = 0; at < raw.length; at += 2) message._addHeaderLineDistinct(raw[at], raw[at + 1], fields);
    return fields;
}

class IncomingMethods {
    get connection() { return this.socket; }
    set connection(value) { this.socket = value; }

    get headers() { return this._headers ??= collect(this, this.rawHeaders); }
    set headers(value) { this._headers = value; }

    get headersDistinct() { return collectDistinct(this, this.rawHeaders); }

    get trailers() { return this._trailers ??= collect(this, this.rawTrailers); }
    set trailers(value) { this._trailers = value; }

    get trailersDistinct() { return collectDistinct(this, this.rawTrailers); }

    _addHeaderLines(lines, count) {
        if (!lines?.length) return;
        if (this.complete) this.rawTrailers = lines;
        else this.rawHeaders = lines;
        const fields = this.complete ? this._trailers : this._headers;
        if (fields) for (let at = 0; at < count; at += 2) this._addHeaderLine(lines[at], lines[at + 1], fields);
    }

    _addHeaderLine(name, value, fields) {
        name = name.toLowerCase();
        if (name === 'set-cookie') {
            if (fields[name] === undefined) fields[name] = [value];
            else fields[name].push(value);
        } else if (fields[name] === undefined) {
            fields[name] = value;
        } else if (name === 'cookie') {
            fields[name] += `; ${value}`;
        } else if (!FIRST_ONLY.has(name) || this.joinDuplicateHeaders) {
            fields[name] += `, ${value}`;
        }
    }

    _addHeaderLineDistinct(name, value, fields) {
        (fields[name.toLowerCase()] ??= []).push(value);
    }

    setTimeout(milliseconds, callback) {
        if (this.req) this.req.setTimeout(milliseconds, callback);
        else {
            if (callback) this.on('timeout', callback);
            this.socket?.setTimeout?.(milliseconds);
        }
        return this;
    }

    _read() {
        if (this._exchange) this._exchange.read();
        else if (this.socket?.readable) this.socket.resume?.();
    }

    // Ignores the rest.
    _dump() {
        if (this._dumped) return;
        this._dumped = true;
        this.removeAllListeners('data');
        this.resume();
    }

    _destroy(error, callback) {
        if (!this.readableEnded || !this.complete) {
            this.aborted = !this.complete;
            this._exchange?.close();
            // As when the other side is cut off.
            if (!this.complete && this.req && !error) this.emit('aborted');
            if (!this._exchange && this.socket && !this.socket.destroyed && this.aborted) this.socket.destroy?.(error);
        }
        callback(error);
    }
}
for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(IncomingMethods.prototype))) {
    if (name !== 'constructor') Object.defineProperty(IncomingMessage.prototype, name, descriptor);
}

const own = Symbol('own');

export function OutgoingMessage(options) {
    if (!(this instanceof OutgoingMessage)) return new OutgoingMessage(options);
    Reflect.apply(Stream, this, []);
    hidden(this, own, {
        names: null, socket: null, bytes: 0, corked: 0, errored: null, needsDrain: false,
        highWaterMark: options?.highWaterMark ?? getDefaultHighWaterMark(), refusesBody: options?.rejectNonStandardBodyWrites ?? false,
    });
    this.outputData = [];
    this.outputSize = 0;
    this.writable = true;
    this.destroyed = false;
    this._last = false;
    this.chunkedEncoding = false;
    this.shouldKeepAlive = true;
    this.maxRequestsOnConnectionReached = false;
    this._defaultKeepAlive = true;
    this.useChunkedEncodingByDefault = true;
    this.sendDate = false;
    this._removedConnection = false;
    this._removedContLen = false;
    this._removedTE = false;
    this.strictContentLength = false;
    this._contentLength = null;
    this._hasBody = true;
    this._trailer = '';
    this.finished = false;
    this._headerSent = false;
    this._closed = false;
    this._header = null;
    this._keepAliveTimeout = 0;
    this._onPendingData = () => {};
}
Object.setPrototypeOf(OutgoingMessage.prototype, Stream.prototype);
Object.setPrototypeOf(OutgoingMessage, Stream);

let warned = false;
function warnOfHeaders(name) {
    if (warned) return;
    warned = true;
    globalThis.process.emitWarning(`OutgoingMessage.prototype.${name} is deprecated`, 'DeprecationWarning', 'DEP0066');
}

function report(message, error, callback) {
    nextTick(() => {
        message.emit('error', error);
        if (typeof callback === 'function') callback(error);
    });
}

// Adds the lines of a header to the head, and notes what the head has.
function addField(message, head, name, value) {
    if (Array.isArray(value) && (value.length < 2 || name.toLowerCase() !== 'cookie')) {
        for (const one of value) addField(message, head, name, one);
        return;
    }
    if (Array.isArray(value)) value = value.join('; ');
    head.text += `${name}: ${value}\r\n`;
    switch (name.toLowerCase()) {
        case 'connection':
            head.connection = true;
            message._removedConnection = false;
            if (/(?:^|\W)close(?:$|\W)/i.test(value)) message._last = true;
            else message.shouldKeepAlive = true;
            break;
        case 'transfer-encoding':
            head.encoding = true;
            message._removedTE = false;
            if (chunkExpression.test(value)) message.chunkedEncoding = true;
            break;
        case 'content-length':
            head.length = true;
            message._contentLength = +value;
            message._removedContLen = false;
            break;
        case 'date':
        case 'expect':
        case 'trailer':
            head[name.toLowerCase()] = true;
            break;
        case 'keep-alive':
            message._defaultKeepAlive = false;
            break;
    }
}

class OutgoingMethods {
    get socket() { return this[own].socket; }
    set socket(value) { this[own].socket = value; }
    get connection() { return this[own].socket; }
    set connection(value) { this[own].socket = value; }

    get errored() { return this[own].errored; }
    get closed() { return this._closed; }
    get headersSent() { return Boolean(this._header); }
    get writableObjectMode() { return false; }
    get writableLength() { return this.outputSize + (this.socket?.writableLength ?? 0); }
    get writableHighWaterMark() { return this.socket?.writableHighWaterMark ?? this[own].highWaterMark; }
    get writableCorked() { return this[own].corked; }
    get writableEnded() { return this.finished; }
    get writableNeedDrain() { return !this.destroyed && !this.finished && this[own].needsDrain; }
    get writableFinished() { return this.finished && this.outputSize === 0 && (!this.socket || this.socket.writableLength === 0); }

    get _headers() {
        warnOfHeaders('_headers');
        return this.getHeaders();
    }

    set _headers(value) {
        warnOfHeaders('_headers');
        this[own].names = value === null ? null : new Map(Object.entries(value ?? {}).map(([name, one]) => [name.toLowerCase(), [name, one]]));
    }

    get _headerNames() {
        warnOfHeaders('_headerNames');
        const { names } = this[own];
        return names === null ? null : Object.assign(Object.create(null), Object.fromEntries([...names].map(([key, [name]]) => [key, name])));
    }

    set _headerNames(value) {
        warnOfHeaders('_headerNames');
        for (const [key, name] of Object.entries(value ?? {})) {
            const header = this[own].names?.get(key);
            if (header) header[0] = name;
        }
    }

    _renderHeaders() {
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('render');
        return Object.fromEntries([...this[own].names ?? []].map(([, header]) => header));
    }

    cork() {
        this[own].corked += 1;
        this.socket?.cork();
    }

    uncork() {
        this[own].corked = Math.max(0, this[own].corked - 1);
        this.socket?.uncork();
    }

    setTimeout(milliseconds, callback) {
        if (callback) this.on('timeout', callback);
        if (this.socket) this.socket.setTimeout(milliseconds);
        else this.once('socket', (socket) => socket.setTimeout(milliseconds));
        return this;
    }

    destroy(error) {
        if (this.destroyed) return this;
        this.destroyed = true;
        this[own].errored = error;
        if (this.socket) this.socket.destroy(error);
        else this.once('socket', (socket) => socket.destroy(error));
        return this;
    }

    setHeader(name, value) {
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('set');
        validateHeaderName(name);
        validateHeaderValue(name, value);
        const names = this[own].names ??= new Map();
        names.set(name.toLowerCase(), [name, value]);
        return this;
    }

    setHeaders(headers) {
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('set');
        if (!headers || Array.isArray(headers) || typeof headers.keys !== 'function' || typeof headers.get !== 'function') {
            throw new ERR_INVALID_ARG_TYPE('headers', ['Headers', 'Map'], headers);
        }
        const cookies = [];
        for (const [name, value] of headers) {
            if (name === 'set-cookie') cookies.push(...[].concat(value));
            else this.setHeader(name, value);
        }
        if (cookies.length > 0) this.setHeader('set-cookie', cookies);
        return this;
    }

    appendHeader(name, value) {
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('append');
        validateHeaderName(name);
        validateHeaderValue(name, value);
        const old = this.getHeader(name);
        if (old === undefined) return this.setHeader(name, value);
        this[own].names.get(name.toLowerCase())[1] = [].concat(old, value);
        return this;
    }

    getHeader(name) {
        if (typeof name !== 'string') throw new ERR_INVALID_ARG_TYPE('name', 'string', name);
        return this[own].names?.get(name.toLowerCase())?.[1];
    }

    hasHeader(name) {
        if (typeof name !== 'string') throw new ERR_INVALID_ARG_TYPE('name', 'string', name);
        return this[own].names?.has(name.toLowerCase()) ?? false;
    }

    removeHeader(name) {
        if (typeof name !== 'string') throw new ERR_INVALID_ARG_TYPE('name', 'string', name);
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('remove');
        const key = name.toLowerCase();
        if (key === 'connection') this._removedConnection = true;
        else if (key === 'content-length') this._removedContLen = true;
        else if (key === 'transfer-encoding') this._removedTE = true;
        else if (key === 'date') this.sendDate = false;
        this[own].names?.delete(key);
    }

    getHeaders() {
        const headers = Object.create(null);
        for (const [key, [, value]] of this[own].names ?? []) headers[key] = value;
        return headers;
    }

    getHeaderNames() {
        return [...this[own].names?.keys() ?? []];
    }

    getRawHeaderNames() {
        return [...this[own].names?.values() ?? []].map(([name]) => name);
    }

    addTrailers(headers) {
        this._trailer = '';
        const entries = Array.isArray(headers) ? headers : Object.entries(Object(checkedTrailers(headers)));
        for (const [name, value] of entries) {
            validateHeaderName(name, 'Trailer name');
            for (const one of [].concat(value)) {
                if (_checkInvalidHeaderChar(one)) throw invalidCharacter('trailer content', name);
                this._trailer += `${name}: ${one}\r\n`;
            }
        }
    }

    // Builds the head of the message.
    _storeHeader(firstLine, headers) {
        const head = { text: firstLine, connection: false, length: false, encoding: false, date: false, expect: false, trailer: false };
        const entries = headers === undefined || headers === null ? [...this[own].names?.values() ?? []]
            : Array.isArray(headers) ? (Array.isArray(headers[0]) ? headers : pairs(headers)) : Object.entries(headers);
        for (const [name, value] of entries) {
            if (headers) {
                validateHeaderName(name);
                for (const one of [].concat(value)) validateHeaderValue(name, one);
            }
            addField(this, head, name, value);
        }
        if (this.sendDate && !head.date) head.text += `Date: ${new Date().toUTCString()}\r\n`;
        if (this.chunkedEncoding && (this.statusCode === 204 || this.statusCode === 304)) {
            this.chunkedEncoding = false;
            this.shouldKeepAlive = false;
        }
        if (this._removedConnection) {
            this._last = !this.shouldKeepAlive;
        } else if (!head.connection) {
            const stays = this.shouldKeepAlive && (head.length || this.useChunkedEncodingByDefault || this.agent);
            this._last = !stays;
            head.text += `Connection: ${stays ? 'keep-alive' : 'close'}\r\n`;
        }
        if (!head.length && !head.encoding) {
            if (!this._hasBody) this.chunkedEncoding = false;
            else if (!this.useChunkedEncodingByDefault) this._last = true;
            else if (!head.trailer && !this._removedContLen && typeof this._contentLength === 'number') {
                head.text += `Content-Length: ${this._contentLength}\r\n`;
            } else if (!this._removedTE) {
                head.text += 'Transfer-Encoding: chunked\r\n';
                this.chunkedEncoding = true;
            }
        }
        if (this.chunkedEncoding !== true && head.trailer) throw new ERR_HTTP_TRAILER_INVALID();
        this._header = `${head.text}\r\n`;
        this._headerSent = false;
        // The other side says whether it wants the body.
        if (head.expect) this._send('');
    }

    _implicitHeader() {
        throw new ERR_METHOD_NOT_IMPLEMENTED('_implicitHeader()');
    }

    flushHeaders() {
        if (!this._header) this._implicitHeader();
        this._send('');
    }

    _send(data, encoding, callback) {
        if (!this._headerSent) {
            const header = this._header;
            this._headerSent = true;
            if (typeof data === 'string' && (!encoding || /^(?:utf-?8|latin1)$/i.test(encoding))) data = header + data;
            else {
                this.outputData.unshift({ data: header, encoding: 'latin1', callback: null });
                this.outputSize += header.length;
                this._onPendingData(header.length);
            }
        }
        return this._writeRaw(data, encoding, callback);
    }

    _writeRaw(data, encoding, callback) {
        const { socket } = this;
        if (socket?.destroyed) return false;
        if (typeof encoding === 'function') [encoding, callback] = [null, encoding];
        if (socket && socket._httpMessage === this && socket.writable) {
            if (this.outputData.length > 0) this._flushOutput(socket);
            return socket.write(data, encoding, callback ?? undefined);
        }
        this.outputData.push({ data, encoding, callback });
        this.outputSize += data.length;
        this._onPendingData(data.length);
        return this.outputSize < this[own].highWaterMark;
    }

    write(chunk, encoding, callback) {
        if (typeof encoding === 'function') [encoding, callback] = [null, encoding];
        return writeTo(this, chunk, encoding, callback, false);
    }

    // Sends a piece of the body.
    _writeBody(chunk, encoding, callback, length, fromEnd) {
        const { socket } = this;
        if (!fromEnd && socket && !socket.writableCorked) {
            socket.cork?.();
            nextTick(() => socket.uncork?.());
        }
        if (!this.chunkedEncoding || chunk.length === 0) return this._send(chunk, encoding, callback);
        this._send(`${length.toString(16)}\r\n`, 'latin1', null);
        this._send(chunk, encoding, null);
        return this._send('\r\n', null, callback);
    }

    // Sends the end of the body.
    _endBody(chunk, finish) {
        if (this._hasBody && this.chunkedEncoding) this._send(`0\r\n${this._trailer}\r\n`, 'latin1', finish);
        else if (!this._headerSent || this.writableLength || chunk) this._send('', 'latin1', finish);
        else nextTick(finish);
        const { socket } = this;
        if (socket) {
            if (socket._writableState) socket._writableState.corked = 1;
            socket.uncork?.();
        }
        this[own].corked = 0;
    }

    end(chunk, encoding, callback) {
        if (typeof chunk === 'function') [chunk, encoding, callback] = [null, null, chunk];
        else if (typeof encoding === 'function') [encoding, callback] = [null, encoding];
        if (chunk) {
            if (this.finished) {
                report(this, new ERR_STREAM_WRITE_AFTER_END(), callback);
                return this;
            }
            this.socket?.cork?.();
            writeTo(this, chunk, encoding, null, true);
        } else if (this.finished) {
            if (typeof callback === 'function') {
                if (this.writableFinished) callback(new ERR_STREAM_ALREADY_FINISHED('end'));
                else this.on('finish', callback);
            }
            return this;
        } else if (!this._header) {
            this.socket?.cork?.();
            this._contentLength = 0;
            this._implicitHeader();
        }
        if (typeof callback === 'function') this.once('finish', callback);
        checkLength(this);
        this._endBody(chunk, (error) => {
            if (error || this.socket?._hadError) return;
            this.emit('finish');
        });
        this.finished = true;
        if (this.outputData.length === 0 && this.socket && this.socket._httpMessage === this) this._finish();
        return this;
    }

    _finish() {
        this.emit('prefinish');
    }

    // Sends what was written before there was a connection.
    _flush() {
        const { socket } = this;
        if (!socket?.writable) return;
        const ret = this._flushOutput(socket);
        if (this.finished) this._finish();
        else if (ret && this[own].needsDrain) {
            this[own].needsDrain = false;
            this.emit('drain');
        }
    }

    _flushOutput(socket) {
        const list = this.outputData;
        if (list.length === 0) return undefined;
        socket.cork?.();
        let ret;
        for (const { data, encoding, callback } of list) ret = socket.write(data, encoding, callback ?? undefined);
        socket.uncork?.();
        this.outputData = [];
        this._onPendingData(-this.outputSize);
        this.outputSize = 0;
        return ret;
    }

    pipe() {
        this.emit('error', new ERR_STREAM_CANNOT_PIPE());
    }
}
for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(OutgoingMethods.prototype))) {
    if (name !== 'constructor') Object.defineProperty(OutgoingMessage.prototype, name, descriptor);
}

function checkedTrailers(headers) {
    if (headers === undefined || headers === null) throw new TypeError('Cannot convert undefined or null to object');
    return headers;
}

function pairs(list) {
    return Array.from({ length: Math.floor(list.length / 2) }, (_, index) => [list[2 * index], list[2 * index + 1]]);
}

function checkLength(message) {
    if (!message.strictContentLength || message._removedContLen || !message._hasBody || message.chunkedEncoding) return;
    if (message.hasHeader('transfer-encoding') || message[own].bytes === message._contentLength) return;
    throw new ERR_HTTP_CONTENT_LENGTH_MISMATCH(message[own].bytes, message._contentLength);
}

function writeTo(message, chunk, encoding, callback, fromEnd) {
    if (typeof callback !== 'function') callback = () => {};
    if (chunk === null) throw new ERR_STREAM_NULL_VALUES();
    if (typeof chunk !== 'string' && !(chunk instanceof Uint8Array)) throw new ERR_INVALID_ARG_TYPE('chunk', ['string', 'Buffer', 'Uint8Array'], chunk);
    if (message.finished || message.destroyed) {
        const error = message.finished ? new ERR_STREAM_WRITE_AFTER_END() : new ERR_STREAM_DESTROYED('write');
        if (message.destroyed) nextTick(callback, error);
        else report(message, error, callback);
        return false;
    }
    const length = typeof chunk === 'string' ? Buffer.byteLength(chunk, encoding ?? undefined) : chunk.byteLength;
    message[own].bytes += length;
    if (!message._header) {
        if (fromEnd) message._contentLength ??= length;
        message._implicitHeader();
    }
    if (!message._hasBody) {
        if (message[own].refusesBody) throw new ERR_HTTP_BODY_NOT_ALLOWED();
        nextTick(callback);
        return true;
    }
    const ret = message._writeBody(chunk, encoding, callback, length, fromEnd);
    if (!ret) message[own].needsDrain = true;
    return ret;
}

export function ServerResponse(request, options) {
    if (!(this instanceof ServerResponse)) return new ServerResponse(request, options);
    Reflect.apply(OutgoingMessage, this, [options]);
    this.req = request;
    this.statusCode = 200;
    this.statusMessage = undefined;
    this.sendDate = true;
    this._sent100 = false;
    this._expect_continue = false;
    if (request.method === 'HEAD') this._hasBody = false;
    if (request.httpVersionMajor < 1 || request.httpVersionMinor < 1) {
        this.useChunkedEncodingByDefault = chunkExpression.test(request.headers?.te);
        this.shouldKeepAlive = false;
    }
}
Object.setPrototypeOf(ServerResponse.prototype, OutgoingMessage.prototype);
Object.setPrototypeOf(ServerResponse, OutgoingMessage);

Object.assign(ServerResponse.prototype, {
    assignSocket(socket) {
        if (socket._httpMessage) throw new ERR_HTTP_SOCKET_ASSIGNED();
        socket._httpMessage = this;
        hidden(this, '_onClose', () => {
            this.destroyed = true;
            this._closed = true;
            this.emit('close');
        });
        socket.on('close', this._onClose);
        this.socket = socket;
        this.emit('socket', socket);
        this._flush();
    },

    detachSocket(socket) {
        socket.removeListener('close', this._onClose);
        socket._httpMessage = null;
        this.socket = null;
    },

    writeContinue(callback) {
        this._writeRaw('HTTP/1.1 100 Continue\r\n\r\n', 'ascii', callback);
        this._sent100 = true;
    },

    writeProcessing(callback) {
        this._writeRaw('HTTP/1.1 102 Processing\r\n\r\n', 'ascii', callback);
    },

    _implicitHeader() {
        this.writeHead(this.statusCode);
    },

    writeHead(statusCode, reason, headers) {
        if (this._header) throw new ERR_HTTP_HEADERS_SENT('write');
        const code = statusCode | 0;
        if (code < 100 || code > 999) throw Object.assign(new RangeError(`Invalid status code: ${statusCode}`), { code: 'ERR_HTTP_INVALID_STATUS_CODE' });
        if (typeof reason !== 'string') [reason, headers] = [this.statusMessage || STATUS_CODES[code] || 'unknown', headers ?? reason];
        this.statusCode = code;
        this.statusMessage = reason;
        if (_checkInvalidHeaderChar(reason)) throw invalidCharacter('statusMessage');
        const list = Array.isArray(headers) ? (Array.isArray(headers[0]) ? headers : pairs(headers)) : Object.entries(headers ?? {});
        for (const [name, value] of list) if (name) this.setHeader(name, value);
        if (code === 204 || code === 304 || (code >= 100 && code <= 199)) this._hasBody = false;
        if (this._expect_continue && !this._sent100) this.shouldKeepAlive = false;
        this._storeHeader(`HTTP/1.1 ${code} ${reason}\r\n`);
        return this;
    },
});
for (const name of Object.keys(ServerResponse.prototype)) Object.defineProperty(ServerResponse.prototype, name, { enumerable: false });
ServerResponse.prototype.writeHeader = ServerResponse.prototype.writeHead;
