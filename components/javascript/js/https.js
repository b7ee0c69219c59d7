// node:https. The host verifies certificates.

import http, { Agent as HttpAgent, request as httpRequest, Server } from 'node:http';

export class Agent extends HttpAgent {
    constructor(options) {
        super(options);
        this.defaultPort = 443;
        this.protocol = 'https:';
    }
}

export const globalAgent = new Agent();

function withScheme(input, options) {
    if (typeof input === 'string' || input instanceof globalThis.URL) return [input, { _defaultAgent: globalAgent, ...options }];
    return [{ _defaultAgent: globalAgent, protocol: 'https:', ...input }];
}

export function request(input, options, callback) {
    if (typeof options === 'function') [options, callback] = [undefined, options];
    return httpRequest(...withScheme(input, options), callback);
}

export function get(input, options, callback) {
    const sent = request(input, options, callback);
    sent.end();
    return sent;
}

export function createServer() {
    return http.createServer();
}

export { Server };
export default { Agent, globalAgent, request, get, createServer, Server };
