// One HTTP request and its response over the host. node:http and `fetch` are built on it.

import * as native from 'internal:native/http';
import { addSource, removeSource, defer } from 'internal:event_loop';

// Headers that the host sets itself.
const OWN = new Set(['host', 'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'transfer-encoding', 'upgrade', 'http2-settings', 'te', 'expect']);

const WRITE = 0, ANSWER = 1, READ = 2;

export class Exchange {
    #handle;
    #sources = [null, null, null];
    #closed = false;
    active = true;

    // `url` is a URL; `on` has answer(status, headers), data(bytes), end() and error({ code, message }).
    constructor(url, method, headers, on) {
        this.on = on;
        const https = url.protocol === 'https:';
        const opened = native.open({
            https,
            authority: url.host,
            method,
            path: (url.pathname || '/') + url.search,
            headers: headers.filter(([name]) => !OWN.has(name.toLowerCase())).map(([name, value]) => [name.toLowerCase(), value]),
        });
        if (typeof opened !== 'number') {
            this.#closed = true;
            defer(() => on.error(opened));
            return;
        }
        this.#handle = opened;
        this.#wait(ANSWER, () => this.#answer());
    }

    #wait(kind, ready) {
        const source = { http: this.#handle, kind, active: this.active, ready };
        this.#sources[kind] = source;
        addSource(source);
    }

    #stop(kind) {
        if (this.#sources[kind] !== null) removeSource(this.#sources[kind]);
        this.#sources[kind] = null;
    }

    ref(active) {
        this.active = active;
        for (const source of this.#sources) if (source !== null) source.active = active;
    }

    // Writes all of the bytes, and calls back.
    write(bytes, callback) {
        if (this.#closed) {
            callback();
            return;
        }
        const proceed = () => {
            const count = native.write(this.#handle, bytes);
            if (count > 0) bytes = bytes.subarray(count);
            // If the server takes no more of the body, the response has the reason.
            if (count < 0 || bytes.length === 0) {
                this.#stop(WRITE);
                callback();
            } else if (this.#sources[WRITE] === null) {
                this.#wait(WRITE, proceed);
            }
        };
        proceed();
    }

    end() {
        if (!this.#closed) native.end(this.#handle);
    }

    #answer() {
        const answer = native.answer(this.#handle);
        if (answer === undefined) return;
        this.#stop(ANSWER);
        if (answer.code !== undefined) {
            this.close();
            this.on.error(answer);
            return;
        }
        this.on.answer(answer.status, answer.headers);
    }

    // Asks for the next data.
    read() {
        if (this.#closed || this.#sources[READ] !== null) return;
        this.#wait(READ, () => {
            const data = native.read(this.#handle);
            if (data === undefined) return;
            this.#stop(READ);
            if (data === null) {
                this.close();
                this.on.end();
            } else if (data.code !== undefined) {
                this.close();
                this.on.error(data);
            } else {
                this.on.data(data);
            }
        });
    }

    close() {
        if (this.#closed) return;
        this.#closed = true;
        for (const kind of [WRITE, ANSWER, READ]) this.#stop(kind);
        native.close(this.#handle);
    }
}
