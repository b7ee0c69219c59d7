// node:https. The host verifies certificates.

import http, { Agent as HttpAgent, request as httpRequest, Server } from 'node:http';

export function Agent(options) {
    if (!(this instanceof Agent)) return new Agent(options);
    Reflect.apply(HttpAgent, this, [options]);
    this.defaultPort = 443;
    this.protocol = 'https:';
    this.maxCachedSessions = this.options.maxCachedSessions ?? 100;
    this._sessionCache = { map: {}, list: [] };
}
Object.setPrototypeOf(Agent.prototype, HttpAgent.prototype);
Object.setPrototypeOf(Agent, HttpAgent);

// The parts of an agent's name that concern TLS, in Node's order.
const NAMED = ['ca', 'cert', 'clientCertEngine', 'ciphers', 'key', 'pfx', 'rejectUnauthorized', 'servername', 'minVersion', 'maxVersion',
    'secureProtocol', 'crl', 'honorCipherOrder', 'ecdhCurve', 'dhparam', 'secureOptions', 'sessionIdContext'];

// Of these, false and zero count too.
const BOOLEAN = new Set(['rejectUnauthorized', 'honorCipherOrder', 'secureOptions']);

Agent.prototype.getName = function getName(options = {}) {
    let name = Reflect.apply(HttpAgent.prototype.getName, this, [options]);
    for (const key of NAMED) {
        name += ':';
        const value = options[key];
        const isThere = BOOLEAN.has(key) ? value !== undefined : Boolean(value);
        if (!isThere || key === 'servername' && value === options.host) continue;
        name += key === 'pfx' && Array.isArray(value) ? value.map((item) => item.buf ?? item).join('') : value;
    }
    name += ':';
    if (options.sigalgs) name += JSON.stringify(options.sigalgs);
    name += ':';
    if (options.privateKeyIdentifier) name += options.privateKeyIdentifier;
    name += ':';
    if (options.privateKeyEngine) name += options.privateKeyEngine;
    return name;
};

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
