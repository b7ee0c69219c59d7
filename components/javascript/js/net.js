// node:net: addresses. Connections are made by node:http and `fetch` only, which the host checks.

import { EventEmitter } from 'node:events';
import { nextTick } from 'internal:event_loop';
import Duplex from '__wasm_rquickjs_builtin/internal/streams/duplex';

const V4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/;

export function isIPv4(text) {
    return V4.test(`${text}`);
}

export function isIPv6(text) {
    text = `${text}`;
    const [address, zone] = text.split('%');
    if (zone === '') return false;
    let groups = address.split(':');
    const last = groups.at(-1);
    if (last.includes('.')) {
        if (!isIPv4(last)) return false;
        groups = [...groups.slice(0, -1), '0', '0'];
    }
    const gaps = address.match(/::/g)?.length ?? 0;
    if (gaps > 1 || address.includes(':::')) return false;
    if (gaps === 0 && (groups.length !== 8 || groups.includes(''))) return false;
    const filled = groups.filter((group) => group !== '');
    if (gaps === 1 && filled.length > 7) return false;
    if (!address.startsWith('::') && address.startsWith(':') || !address.endsWith('::') && address.endsWith(':')) return false;
    return filled.every((group) => /^[0-9a-f]{1,4}$/i.test(group));
}

export function isIP(text) {
    return isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0;
}

function refused(syscall) {
    return Object.assign(new Error(`${syscall} EACCES: the sandbox has no sockets: use node:http, node:https or fetch`), { errno: -13, code: 'EACCES', syscall });
}

export class Socket extends Duplex {
    connect(...args) {
        nextTick(() => this.destroy(refused('connect')));
        return this;
    }

    _read() {}

    _write(chunk, encoding, callback) {
        callback(refused('write'));
    }

    setTimeout() { return this; }
    setKeepAlive() { return this; }
    setNoDelay() { return this; }
    ref() { return this; }
    unref() { return this; }
    address() { return {}; }
}
export const Stream = Socket;

export class Server extends EventEmitter {
    listening = false;

    listen() {
        nextTick(() => this.emit('error', refused('listen')));
        return this;
    }

    close(callback) {
        if (callback) nextTick(callback, Object.assign(new Error('Server is not running.'), { code: 'ERR_SERVER_NOT_RUNNING' }));
        return this;
    }

    address() { return null; }
    ref() { return this; }
    unref() { return this; }
}

export function createServer() {
    return new Server();
}

export function connect(...args) {
    return new Socket().connect(...args);
}
export const createConnection = connect;

export class BlockList {
    rules = [];
    addAddress() {}
    addRange() {}
    addSubnet() {}
    check() { return false; }
}
export class SocketAddress {
    constructor({ address = '127.0.0.1', family = 'ipv4', port = 0, flowlabel = 0 } = {}) {
        Object.assign(this, { address, family, port, flowlabel });
    }
}
let autoSelect = true, attempt = 250;
export const getDefaultAutoSelectFamily = () => autoSelect, setDefaultAutoSelectFamily = (value) => { autoSelect = value; };
export const getDefaultAutoSelectFamilyAttemptTimeout = () => attempt, setDefaultAutoSelectFamilyAttemptTimeout = (value) => { attempt = value; };

export default {
    isIP, isIPv4, isIPv6, Socket, Stream, Server, createServer, connect, createConnection, BlockList, SocketAddress, getDefaultAutoSelectFamily,
    setDefaultAutoSelectFamily, getDefaultAutoSelectFamilyAttemptTimeout, setDefaultAutoSelectFamilyAttemptTimeout,
};
