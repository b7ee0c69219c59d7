// Parses HTTP/1 messages, as `HTTPParser` of Node's `_http_common` does.

import { Buffer } from 'node:buffer';

// In the order of Node's parser, which passes their numbers.
export const methods = [
    'DELETE', 'GET', 'HEAD', 'POST', 'PUT', 'CONNECT', 'OPTIONS', 'TRACE', 'COPY', 'LOCK', 'MKCOL', 'MOVE', 'PROPFIND', 'PROPPATCH', 'SEARCH', 'UNLOCK',
    'BIND', 'REBIND', 'UNBIND', 'ACL', 'REPORT', 'MKACTIVITY', 'CHECKOUT', 'MERGE', 'M-SEARCH', 'NOTIFY', 'SUBSCRIBE', 'UNSUBSCRIBE', 'PATCH', 'PURGE',
    'MKCALENDAR', 'LINK', 'UNLINK', 'SOURCE', 'QUERY',
];

const LONGEST_HEAD = 16384;
const REQUEST = 1, RESPONSE = 2;
const kOnMessageBegin = 0, kOnHeaders = 1, kOnHeadersComplete = 2, kOnBody = 3, kOnMessageComplete = 4, kOnExecute = 5, kOnTimeout = 6;

class ParseError extends Error {
    constructor(code, reason) {
        super(`Parse Error: ${reason}`);
        this.code = code;
        this.reason = reason;
    }
}

export class HTTPParser {
    static REQUEST = REQUEST;
    static RESPONSE = RESPONSE;
    static kOnMessageBegin = kOnMessageBegin;
    static kOnHeaders = kOnHeaders;
    static kOnHeadersComplete = kOnHeadersComplete;
    static kOnBody = kOnBody;
    static kOnMessageComplete = kOnMessageComplete;
    static kOnExecute = kOnExecute;
    static kOnTimeout = kOnTimeout;

    #type = REQUEST;
    #longest = LONGEST_HEAD;
    #state = 'start';
    #line = '';
    #size = 0;
    #message;
    // The bytes that are left of the body or of a chunk.
    #left = 0;
    #isBusy = false;
    #later = [];

    initialize(type, resource, longest = 0) {
        this.#type = type;
        this.#longest = longest || LONGEST_HEAD;
        this.#begin();
    }

    #begin() {
        this.#state = 'start';
        this.#line = '';
        this.#size = 0;
        this.#message = { headers: [], trailers: [], method: undefined, url: '', status: undefined, reason: undefined, major: 1, minor: 1 };
    }

    // Returns how many bytes were parsed, or what is wrong with them. Errors of the callbacks are thrown.
    execute(data, offset = 0, length = data.length - offset) {
        // A callback received more: that comes after what is parsed now.
        if (this.#isBusy) {
            this.#later.push(data.subarray(offset, offset + length));
            return length;
        }
        let at = offset;
        this.#isBusy = true;
        try {
            while (at < offset + length) at = this.#advance(data, at, offset + length);
        } catch (error) {
            if (!(error instanceof ParseError)) throw error;
            error.bytesParsed = at - offset;
            this.#state = 'broken';
            return error;
        } finally {
            this.#isBusy = false;
        }
        while (this.#later.length > 0) {
            const result = this.execute(this.#later.shift());
            if (result instanceof Error) return result;
        }
        return length;
    }

    // The other side sends no more.
    finish() {
        if (this.#state === 'until the end') {
            this.#complete();
        } else if (this.#state !== 'start' || this.#line !== '') {
            if (this.#state !== 'broken') return new ParseError('HPE_INVALID_EOF_STATE', 'Invalid EOF state');
        }
        return undefined;
    }

    close() {}
    free() {}
    remove() {}
    pause() {}
    resume() {}
    consume() {}
    unconsume() {}
    getCurrentBuffer() {}

    #advance(data, at, end) {
        switch (this.#state) {
            case 'until the end':
                this.#body(data.subarray(at, end));
                return end;
            case 'body':
            case 'chunk': {
                const to = Math.min(end, at + this.#left);
                this.#left -= to - at;
                this.#body(data.subarray(at, to));
                if (this.#left > 0) return to;
                if (this.#state === 'body') this.#complete();
                else this.#state = 'after a chunk';
                return to;
            }
            case 'broken':
                return end;
            default: {
                const newline = data.indexOf(10, at);
                const to = newline < 0 || newline >= end ? end : newline;
                this.#line += Buffer.from(data.buffer, data.byteOffset + at, to - at).latin1Slice();
                this.#size += to - at;
                if (this.#size > this.#longest) throw new ParseError('HPE_HEADER_OVERFLOW', 'Header overflow');
                if (to === end) return end;
                const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line;
                this.#line = '';
                this.#take(line);
                return to + 1;
            }
        }
    }

    #take(line) {
        const { headers, trailers } = this.#message;
        switch (this.#state) {
            case 'start':
                // Empty lines may precede a message.
                if (line !== '') this.#first(line);
                break;
            case 'headers':
                if (line === '') this.#headersComplete();
                else headers.push(...field(line));
                break;
            case 'chunk size': {
                const size = /^([0-9a-f]+)[ \t]*(?:;.*)?$/i.exec(line)?.[1];
                if (size === undefined || size.length > 13) throw new ParseError('HPE_INVALID_CHUNK_SIZE', 'Invalid character in chunk size');
                this.#left = parseInt(size, 16);
                this.#size = 0;
                this.#state = this.#left === 0 ? 'trailers' : 'chunk';
                break;
            }
            case 'after a chunk':
                if (line !== '') throw new ParseError('HPE_STRICT', 'Expected LF after chunk data');
                this.#state = 'chunk size';
                break;
            case 'trailers':
                if (line !== '') {
                    trailers.push(...field(line));
                    break;
                }
                if (trailers.length > 0) this[kOnHeaders]?.(trailers, '');
                this.#complete();
                break;
        }
    }

    #first(line) {
        this[kOnMessageBegin]?.();
        const message = this.#message;
        let version;
        if (this.#type === REQUEST) {
            const found = /^([A-Z-]+) (\S+) HTTP\/(\d)\.(\d)$/.exec(line);
            if (!found) throw new ParseError('HPE_INVALID_CONSTANT', 'Expected HTTP/, RTSP/ or ICE/');
            message.method = methods.indexOf(found[1]);
            if (message.method < 0) throw new ParseError('HPE_INVALID_METHOD', 'Invalid method encountered');
            message.url = found[2];
            version = found.slice(3);
        } else {
            const found = /^HTTP\/(\d)\.(\d) (\d{3})(?: (.*))?$/.exec(line);
            if (!found) throw new ParseError('HPE_INVALID_CONSTANT', 'Expected HTTP/, RTSP/ or ICE/');
            message.status = +found[3];
            message.reason = found[4] ?? '';
            version = found.slice(1);
        }
        [message.major, message.minor] = [+version[0], +version[1]];
        this.#state = 'headers';
    }

    #headersComplete() {
        const { headers, method, url, status, reason, major, minor } = this.#message;
        let length, isChunked = false, hasEncoding = false, connection = '', upgrades = false;
        for (let at = 0; at < headers.length; at += 2) {
            const value = headers[at + 1];
            switch (headers[at].toLowerCase()) {
                case 'content-length':
                    if (!/^\d{1,15}$/.test(value) || (length !== undefined && length !== +value)) {
                        throw new ParseError('HPE_INVALID_CONTENT_LENGTH', 'Invalid character in Content-Length');
                    }
                    length = +value;
                    break;
                case 'transfer-encoding':
                    hasEncoding = true;
                    isChunked = /(?:^|[ ,])chunked[ \t]*$/i.test(value);
                    break;
                case 'connection':
                    connection += `,${value.toLowerCase()}`;
                    break;
                case 'upgrade':
                    upgrades = true;
                    break;
            }
        }
        if (length !== undefined && hasEncoding) {
            throw new ParseError('HPE_UNEXPECTED_CONTENT_LENGTH', "Content-Length can't be present with Transfer-Encoding");
        }
        const keepsAlive = minor === 0 ? connection.includes('keep-alive') : !connection.includes('close');
        const isUpgrade = upgrades && connection.includes('upgrade');
        const skip = this[kOnHeadersComplete]?.(
            major, minor, headers, this.#type === REQUEST ? method : undefined, this.#type === REQUEST ? url : undefined, status, reason, isUpgrade, keepsAlive);
        this.#size = 0;
        const isEmpty = skip === 1 || skip === true || status === 204 || status === 304 || (status >= 100 && status < 200);
        if (isEmpty) this.#complete();
        else if (isChunked) this.#state = 'chunk size';
        else if (length > 0) [this.#state, this.#left] = ['body', length];
        else if (length === 0 || this.#type === REQUEST) this.#complete();
        else this.#state = 'until the end';
    }

    #body(bytes) {
        if (bytes.length > 0) this[kOnBody]?.(bytes);
    }

    #complete() {
        this.#begin();
        this[kOnMessageComplete]?.();
    }
}

// The name and the value of a line.
function field(line) {
    const found = /^([\^_`a-zA-Z\-0-9!#$%&'*+.|~]+):[ \t]*([^\0]*?)[ \t]*$/.exec(line);
    if (!found) throw new ParseError('HPE_INVALID_HEADER_TOKEN', 'Invalid header token');
    return [found[1], found[2]];
}
