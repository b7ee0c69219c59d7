// A request of node:http over a connection of the program's own: a stream that an agent or `createConnection` returned.

import { nextTick } from 'internal:event_loop';
import { IncomingMessage } from 'internal:http_messages';
import { HTTPParser } from 'internal:http_parser';

const { RESPONSE, kOnHeaders, kOnHeadersComplete, kOnBody, kOnMessageComplete } = HTTPParser;

function hangUp() {
    return Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
}

// Connects a request with a stream, over which it sends itself. `touch` is called when something arrives.
export function connectRequest(request, socket, touch) {
    const parser = new HTTPParser();
    parser.initialize(RESPONSE, {}, request.maxHeaderSize);
    parser.socket = socket;
    socket.parser = parser;
    socket._httpMessage = request;
    request.parser = parser;
    let response = null, trailers = [], failed = false;

    const fail = (error) => {
        if (failed) return;
        failed = true;
        socket._hadError = true;
        request.destroyed = true;
        request.emit('error', error);
    };
    parser[kOnHeaders] = (fields) => {
        trailers = fields;
    };
    parser[kOnHeadersComplete] = (major, minor, headers, method, url, status, reason, isUpgrade, keepsAlive) => {
        const message = new IncomingMessage(socket);
        Object.assign(message, {
            httpVersionMajor: major, httpVersionMinor: minor, httpVersion: `${major}.${minor}`, statusCode: status, statusMessage: reason, upgrade: isUpgrade,
            joinDuplicateHeaders: request.joinDuplicateHeaders ?? false,
        });
        message._addHeaderLines(headers, headers.length);
        if (status >= 100 && status < 200 && status !== 101) {
            if (status === 100) request.emit('continue');
            const { statusCode, statusMessage, httpVersion, httpVersionMajor, httpVersionMinor, headers: fields, rawHeaders } = message;
            request.emit('information', { statusCode, statusMessage, httpVersion, httpVersionMajor, httpVersionMinor, headers: fields, rawHeaders });
            return 1;
        }
        if (!keepsAlive) request.shouldKeepAlive = false;
        response = request.res = message;
        message.req = request;
        if (!request.emit('response', message)) message._dump();
        return request.method === 'HEAD' ? 1 : 0;
    };
    parser[kOnBody] = (chunk) => {
        if (response !== null && !response.push(chunk)) socket.pause?.();
    };
    parser[kOnMessageComplete] = () => {
        if (response === null) return;
        response.complete = true;
        if (trailers.length > 0) response._addHeaderLines(trailers, trailers.length);
        response.push(null);
        response.once('end', end);
    };
    const end = () => {
        stop();
        request._closed = true;
        if (typeof socket.destroySoon === 'function') socket.destroySoon();
        else socket.end?.();
        nextTick(() => {
            request.destroyed = true;
            request.emit('close');
        });
    };
    const onData = (chunk) => {
        touch();
        const result = parser.execute(chunk);
        if (result instanceof Error) {
            stop();
            socket.destroy();
            fail(result);
        }
    };
    const onEnd = () => {
        parser.finish();
        if (response === null && !failed && !request.destroyed) fail(hangUp());
        if (response === null) socket.destroy?.();
    };
    const onClose = () => {
        parser.finish();
        if (response !== null && !response.complete) {
            response.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
        } else if (response === null && !failed) {
            fail(hangUp());
        }
        if (request._closed) return;
        request._closed = true;
        request.destroyed = true;
        request.emit('close');
    };
    const onDrain = () => request.emit('drain');
    const stop = () => {
        for (const [event, listener] of listeners) if (event !== 'error') socket.removeListener(event, listener);
    };
    const listeners = [['data', onData], ['end', onEnd], ['error', fail], ['close', onClose], ['drain', onDrain]];
    for (const [event, listener] of listeners) socket.on(event, listener);
}
