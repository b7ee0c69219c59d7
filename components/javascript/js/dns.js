// node:dns: the host resolves names itself, and programs see no addresses.

import { isIP } from 'node:net';
import { nextTick } from 'internal:event_loop';

function failure(syscall, hostname) {
    return Object.assign(new Error(`${syscall} ENOTFOUND ${hostname}`), { errno: -3008, code: 'ENOTFOUND', syscall, hostname });
}

export function lookup(hostname, options, callback) {
    if (typeof options === 'function') [options, callback] = [{}, options];
    if (typeof options === 'number') options = { family: options };
    const address = hostname === 'localhost' ? '127.0.0.1' : hostname;
    const family = isIP(address);
    nextTick(() => {
        if (family === 0) callback(failure('getaddrinfo', hostname));
        else if (options?.all) callback(null, [{ address, family }]);
        else callback(null, address, family);
    });
}

const NAMES = ['resolve', 'resolve4', 'resolve6', 'resolveAny', 'resolveCaa', 'resolveCname', 'resolveMx', 'resolveNaptr', 'resolveNs', 'resolvePtr', 'resolveSoa', 'resolveSrv', 'resolveTxt', 'reverse'];
const refusing = {};
for (const name of NAMES) {
    refusing[name] = (hostname, ...rest) => {
        const callback = rest.pop();
        nextTick(() => callback(failure(`query${name[0].toUpperCase()}${name.slice(1)}`, hostname)));
    };
}
export const { resolve, resolve4, resolve6, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs, resolvePtr, resolveSoa, resolveSrv, resolveTxt, reverse } = refusing;
export function lookupService(address, port, callback) {
    nextTick(() => callback(failure('getnameinfo', address)));
}

let order = 'verbatim';
export const getServers = () => [], setServers = () => {}, getDefaultResultOrder = () => order, setDefaultResultOrder = (value) => { order = value; };
export const NODATA = 'ENODATA', NOTFOUND = 'ENOTFOUND', SERVFAIL = 'ESERVFAIL', TIMEOUT = 'ETIMEOUT', CANCELLED = 'ECANCELLED', ADDRCONFIG = 32, V4MAPPED = 8, ALL = 16;

export class Resolver {
    getServers() { return []; }
    setServers() {}
    cancel() {}
}
Object.assign(Resolver.prototype, refusing);

export const promises = { getServers, setServers, getDefaultResultOrder, setDefaultResultOrder };
promises.lookup = (hostname, options) => new Promise((done, reject) => {
    lookup(hostname, options ?? {}, (error, address, family) => (error ? reject(error) : done(options?.all ? address : { address, family })));
});
for (const name of NAMES) promises[name] = (...args) => new Promise((done, reject) => refusing[name](...args, (error, value) => (error ? reject(error) : done(value))));
promises.Resolver = class Resolver {
    getServers() { return []; }
    setServers() {}
    cancel() {}
};
Object.assign(promises.Resolver.prototype, Object.fromEntries(NAMES.map((name) => [name, promises[name]])));

export default {
    lookup, lookupService, ...refusing, getServers, setServers, getDefaultResultOrder, setDefaultResultOrder, Resolver, promises, NODATA, NOTFOUND,
    SERVFAIL, TIMEOUT, CANCELLED, ADDRCONFIG, V4MAPPED, ALL,
};
