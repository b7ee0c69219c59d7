// node:dns: the host resolves names itself, and programs see no addresses.

import { isIP } from 'node:net';
import { performance, _measured } from 'node:perf_hooks';
import { nextTick } from 'internal:event_loop';
import { validateArray, validateFunction, validateString } from '__wasm_rquickjs_builtin/internal/validators';

function failure(syscall, hostname) {
    return Object.assign(new Error(`${syscall} ENOTFOUND ${hostname}`), { errno: -3008, code: 'ENOTFOUND', syscall, hostname });
}

export function lookup(hostname, options, callback) {
    if (typeof options === 'function') [options, callback] = [{}, options];
    if (typeof options === 'number') options = { family: options };
    const address = hostname === 'localhost' ? '127.0.0.1' : hostname;
    const family = isIP(address);
    const start = performance.now();
    nextTick(() => {
        if (family !== 0) {
            const detail = { hostname, family: options?.family ?? 0, hints: options?.hints ?? 0, verbatim: order === 'verbatim', order, addresses: [address] };
            _measured('lookup', 'dns', start, detail);
        }
        if (family === 0) callback(failure('getaddrinfo', hostname));
        else if (options?.all) callback(null, [{ address, family }]);
        else callback(null, address, family);
    });
}

const NAMES = ['resolve', 'resolve4', 'resolve6', 'resolveAny', 'resolveCaa', 'resolveCname', 'resolveMx', 'resolveNaptr', 'resolveNs', 'resolvePtr', 'resolveSoa', 'resolveSrv', 'resolveTxt', 'reverse'];
const refusing = {};
for (const name of NAMES) {
    refusing[name] = (hostname, ...rest) => {
        validateString(hostname, 'name');
        const callback = rest.pop();
        validateFunction(callback, 'callback');
        nextTick(() => callback(failure(`query${name[0].toUpperCase()}${name.slice(1)}`, hostname)));
    };
}
export const { resolve, resolve4, resolve6, resolveAny, resolveCaa, resolveCname, resolveMx, resolveNaptr, resolveNs, resolvePtr, resolveSoa, resolveSrv, resolveTxt, reverse } = refusing;
export function lookupService(address, port, callback) {
    const start = performance.now();
    nextTick(() => {
        if (address !== '127.0.0.1') {
            callback(failure('getnameinfo', address));
            return;
        }
        const detail = { host: address, port, hostname: 'localhost', service: String(port) };
        _measured('lookupService', 'dns', start, detail);
        callback(null, detail.hostname, detail.service);
    });
}

let order = 'verbatim';
let servers = ['127.0.0.1'];
export const getServers = () => [...servers], setServers = (list) => {
    validateArray(list, 'servers');
    list.forEach((server, index) => validateString(server, `servers[${index}]`));
    for (const server of list) {
        const address = server.replace(/^\[(.*)\](?::\d+)?$/, '$1').replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1');
        if (isIP(address) === 0) throw Object.assign(new TypeError(`Invalid IP address: ${server}`), { code: 'ERR_INVALID_IP_ADDRESS' });
    }
    servers = [...list];
};
export const getDefaultResultOrder = () => order, setDefaultResultOrder = (value) => { order = value; };
export const ADDRCONFIG = 32, V4MAPPED = 8, ALL = 16;
export const
    NODATA = 'ENODATA', FORMERR = 'EFORMERR', SERVFAIL = 'ESERVFAIL', NOTFOUND = 'ENOTFOUND', NOTIMP = 'ENOTIMP',
    REFUSED = 'EREFUSED', BADQUERY = 'EBADQUERY', BADNAME = 'EBADNAME', BADFAMILY = 'EBADFAMILY', BADRESP = 'EBADRESP',
    CONNREFUSED = 'ECONNREFUSED', TIMEOUT = 'ETIMEOUT', EOF = 'EEOF', FILE = 'EFILE', NOMEM = 'ENOMEM',
    DESTRUCTION = 'EDESTRUCTION', BADSTR = 'EBADSTR', BADFLAGS = 'EBADFLAGS', NONAME = 'ENONAME', BADHINTS = 'EBADHINTS',
    NOTINITIALIZED = 'ENOTINITIALIZED', LOADIPHLPAPI = 'ELOADIPHLPAPI', ADDRGETNETWORKPARAMS = 'EADDRGETNETWORKPARAMS', CANCELLED = 'ECANCELLED';
const codes = {
    NODATA, FORMERR, SERVFAIL, NOTFOUND, NOTIMP, REFUSED, BADQUERY, BADNAME, BADFAMILY, BADRESP, CONNREFUSED, TIMEOUT,
    EOF, FILE, NOMEM, DESTRUCTION, BADSTR, BADFLAGS, NONAME, BADHINTS, NOTINITIALIZED, LOADIPHLPAPI, ADDRGETNETWORKPARAMS, CANCELLED,
};

let countQuery;

export class Resolver {
    // Programs replace its functions.
    _handle = { getServers: () => getServers().map((server) => [server, 53]) };
    #pending = 0;

    static {
        countQuery = (resolver, by) => {
            resolver.#pending += by;
        };
    }

    getServers() {
        return (this._handle.getServers() ?? []).map(([server, port]) => (!port || port === 53 ? server : `${server}:${port}`));
    }

    setServers(list) {
        if (this.#pending > 0) {
            throw Object.assign(new Error(`c-ares failed to set servers: "There are pending queries." [${list}]`), { code: 'ERR_DNS_SET_SERVERS_FAILED' });
        }
        setServers(list);
    }

    setLocalAddress(ipv4, ipv6) {
        validateString(ipv4, 'ipv4');
        if (ipv6 !== undefined) validateString(ipv6, 'ipv6');
        for (const [address, family] of [[ipv4, ipv6 === undefined ? undefined : 4], [ipv6, 6]]) {
            if (address === undefined) continue;
            const found = isIP(address);
            if (found === 0) throw Object.assign(new Error('Invalid IP address.'), { code: 'ERR_INVALID_ARG_VALUE' });
            if (family !== undefined && family !== found) throw Object.assign(new Error(`Cannot specify two IPv${found} addresses.`), { code: 'ERR_INVALID_ARG_VALUE' });
        }
    }
    cancel() {}
}
for (const name of NAMES) {
    Resolver.prototype[name] = function query(hostname, ...rest) {
        const callback = rest.pop();
        refusing[name](hostname, typeof callback !== 'function' ? callback : (...results) => {
            countQuery(this, -1);
            callback(...results);
        });
        countQuery(this, 1);
    };
}

export const promises = { ...codes, getServers, setServers, getDefaultResultOrder, setDefaultResultOrder };
promises.lookup = (hostname, options) => new Promise((done, reject) => {
    lookup(hostname, options ?? {}, (error, address, family) => (error ? reject(error) : done(options?.all ? address : { address, family })));
});
promises.lookupService = (address, port) => new Promise((done, reject) => {
    lookupService(address, port, (error, hostname, service) => (error ? reject(error) : done({ hostname, service })));
});
for (const name of NAMES) {
    promises[name] = (hostname, ...args) => {
        validateString(hostname, 'name');
        return new Promise((done, reject) => refusing[name](hostname, ...args, (error, value) => (error ? reject(error) : done(value))));
    };
}
promises.Resolver = class extends Resolver {};
Object.defineProperty(promises.Resolver, 'name', { value: 'Resolver' });
Object.assign(promises.Resolver.prototype, Object.fromEntries(NAMES.map((name) => [name, promises[name]])));

export default {
    lookup, lookupService, ...refusing, getServers, setServers, getDefaultResultOrder, setDefaultResultOrder, Resolver, promises, ...codes,
    ADDRCONFIG, V4MAPPED, ALL,
};
