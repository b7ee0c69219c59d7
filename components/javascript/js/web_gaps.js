// What the globals of the web lack in wasm-rquickjs.

import { DOMException } from '__wasm_rquickjs_builtin/abort_controller';
import { Event, EventTarget } from 'internal:event_target';
import console from 'node:console';
import { performance } from 'node:perf_hooks';

const CODES = 'INDEX_SIZE_ERR DOMSTRING_SIZE_ERR HIERARCHY_REQUEST_ERR WRONG_DOCUMENT_ERR INVALID_CHARACTER_ERR NO_DATA_ALLOWED_ERR NO_MODIFICATION_ALLOWED_ERR NOT_FOUND_ERR NOT_SUPPORTED_ERR INUSE_ATTRIBUTE_ERR INVALID_STATE_ERR SYNTAX_ERR INVALID_MODIFICATION_ERR NAMESPACE_ERR INVALID_ACCESS_ERR VALIDATION_ERR TYPE_MISMATCH_ERR SECURITY_ERR NETWORK_ERR ABORT_ERR URL_MISMATCH_ERR QUOTA_EXCEEDED_ERR TIMEOUT_ERR INVALID_NODE_TYPE_ERR DATA_CLONE_ERR';
for (const [index, name] of CODES.split(' ').entries()) {
    for (const target of [DOMException, DOMException.prototype]) Object.defineProperty(target, name, { value: index + 1, enumerable: true });
}
Object.defineProperty(DOMException.prototype, Symbol.toStringTag, { value: 'DOMException', configurable: true });

export class MessageEvent extends Event {
    #init;

    constructor(type, init = {}) {
        super(type, init);
        this.#init = init ?? {};
    }

    get data() { return this.#init.data ?? null; }
    get origin() { return this.#init.origin ?? ''; }
    get lastEventId() { return this.#init.lastEventId ?? ''; }
    get source() { return this.#init.source ?? null; }
    get ports() { return this.#init.ports ?? []; }
}

export class Navigator {
    get hardwareConcurrency() { return 1; }
    get language() { return 'en-US'; }
    get languages() { return Object.freeze(['en-US']); }
    get platform() { return 'Linux x86_64'; }
    get userAgent() { return 'Node.js/22'; }
    get [Symbol.toStringTag]() { return 'Navigator'; }
}

// Only requests of HTTP leave the sandbox.
export class WebSocket extends EventTarget {
    constructor(url) {
        super();
        throw Object.assign(new Error(`WebSocket is unavailable on the current platform, which is being used to run Node.js: ${url}`), {
            code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
        });
    }
}
for (const [value, name] of ['CONNECTING', 'OPEN', 'CLOSING', 'CLOSED'].entries()) {
    for (const object of [WebSocket, WebSocket.prototype]) Object.defineProperty(object, name, { value, enumerable: true });
}

export const Performance = performance.constructor;

// The order that scripts see in `Object.keys(console)`.
for (const name of 'log info debug warn error dir time timeEnd timeLog trace assert clear count countReset group groupEnd table dirxml groupCollapsed'.split(' ')) {
    const property = Object.getOwnPropertyDescriptor(console, name);
    if (property?.configurable) {
        delete console[name];
        Object.defineProperty(console, name, property);
    }
}
for (const name of ['Console', '_times']) {
    const property = Object.getOwnPropertyDescriptor(console, name);
    if (property?.configurable === false) continue;
    delete console[name];
    Object.defineProperty(console, name, { ...property, enumerable: name !== '_times' });
}
Object.defineProperty(console, Symbol.toStringTag, { value: 'console', configurable: true });
