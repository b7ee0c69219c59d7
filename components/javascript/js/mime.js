// MIMEType and MIMEParams of node:util, by the standard on MIME sniffing.

const TOKEN = /^[!#$%&'*+\-.^_`|~A-Za-z0-9]+$/;
const QUOTED_TEXT = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;
const SPACES = /^[\r\n\t ]+|[\r\n\t ]+$/g;

function invalid(production, text) {
    const error = new TypeError(`The MIME syntax for a ${production} in ${JSON.stringify(text)} is invalid`);
    error.code = 'ERR_INVALID_MIME_SYNTAX';
    const toString = { toString() { return `${this.name} [${this.code}]: ${this.message}`; } };
    return Object.defineProperty(error, 'toString', { ...Object.getOwnPropertyDescriptor(toString, 'toString'), enumerable: false });
}

function quoted(value) {
    if (TOKEN.test(value)) return value;
    return `"${value.replace(/["\\]/g, '\\$&')}"`;
}

// Reads the text of a value in quotation marks, and returns it with the place behind it.
function unquote(text, at) {
    let value = '';
    for (at += 1; at < text.length && text[at] !== '"'; at++) {
        if (text[at] === '\\' && at + 1 < text.length) at += 1;
        value += text[at];
    }
    return { value, at: at + 1 };
}

let parse;

export class MIMEParams {
    #entries = new Map();

    static {
        parse = (text) => {
            const params = new MIMEParams();
            let at = 0;
            while (at < text.length) {
                while (/[\r\n\t ]/.test(text[at] ?? '')) at += 1;
                const start = at;
                while (at < text.length && text[at] !== ';' && text[at] !== '=') at += 1;
                const name = text.slice(start, at).toLowerCase();
                if (text[at] !== '=') {
                    at += 1;
                    continue;
                }
                at += 1;
                let value, end;
                const isQuoted = text[at] === '"';
                if (isQuoted) ({ value, at } = unquote(text, at));
                end = text.indexOf(';', at);
                if (end < 0) end = text.length;
                if (!isQuoted) value = text.slice(at, end).replace(/[\r\n\t ]+$/, '');
                at = end + 1;
                if (name !== '' && TOKEN.test(name) && (isQuoted || value !== '') && QUOTED_TEXT.test(value) && !params.#entries.has(name)) {
                    params.#entries.set(name, value);
                }
            }
            return params;
        };
    }

    delete(name) {
        this.#entries.delete(`${name}`);
    }

    get(name) {
        return this.#entries.get(`${name}`) ?? null;
    }

    has(name) {
        return this.#entries.has(`${name}`);
    }

    set(name, value) {
        name = `${name}`;
        value = `${value}`;
        if (!TOKEN.test(name)) throw invalid('parameter name', name);
        if (!QUOTED_TEXT.test(value)) throw invalid('parameter value', value);
        this.#entries.set(name, value);
    }

    *entries() {
        yield* this.#entries.entries();
    }

    *keys() {
        yield* this.#entries.keys();
    }

    *values() {
        yield* this.#entries.values();
    }

    toString() {
        return [...this.#entries].map(([name, value]) => `${name}=${quoted(value)}`).join(';');
    }
}
Object.defineProperty(MIMEParams.prototype, Symbol.iterator, { value: MIMEParams.prototype.entries, writable: true, configurable: true, enumerable: false });
Object.defineProperty(MIMEParams.prototype, 'toJSON', { value: MIMEParams.prototype.toString, writable: true, configurable: true, enumerable: true });

export class MIMEType {
    #type;
    #subtype;
    #params;

    constructor(input) {
        const text = `${input}`.replace(SPACES, '');
        const slash = text.indexOf('/');
        const type = slash < 0 ? text : text.slice(0, slash);
        if (slash < 0 || !TOKEN.test(type)) throw invalid('type', text);
        const semicolon = text.indexOf(';', slash);
        const end = semicolon < 0 ? text.length : semicolon;
        const subtype = text.slice(slash + 1, end).replace(/[\r\n\t ]+$/, '');
        if (!TOKEN.test(subtype)) throw invalid('subtype', text);
        this.#type = type.toLowerCase();
        this.#subtype = subtype.toLowerCase();
        this.#params = parse(text.slice(end + 1));
    }

    get type() {
        return this.#type;
    }

    set type(value) {
        value = `${value}`;
        if (!TOKEN.test(value)) throw invalid('type', value);
        this.#type = value.toLowerCase();
    }

    get subtype() {
        return this.#subtype;
    }

    set subtype(value) {
        value = `${value}`;
        if (!TOKEN.test(value)) throw invalid('subtype', value);
        this.#subtype = value.toLowerCase();
    }

    get essence() {
        return `${this.#type}/${this.#subtype}`;
    }

    get params() {
        return this.#params;
    }

    toString() {
        const params = this.#params.toString();
        return params === '' ? this.essence : `${this.essence};${params}`;
    }
}
Object.defineProperty(MIMEType.prototype, 'toJSON', { value: MIMEType.prototype.toString, writable: true, configurable: true, enumerable: true });
