// The parser and the serialiser of the old interface of node:url.

const SLASHED = new Set(['http', 'https', 'ftp', 'gopher', 'file', 'ws', 'wss'].flatMap((name) => [name, `${name}:`]));
const HOSTLESS = new Set(['javascript', 'javascript:']);
// Characters that are escaped everywhere, and those that a host may not have.
const ESCAPED = /[\t\n\r "'<>\\^`{|}]/g;
const FORBIDDEN_IN_HOST = /[\0\t\n\r #%/:<>?@[\\\]^|]/;
const FORBIDDEN_IN_ADDRESS = /[\0\t\n\r #%/<>?@\\^|]/;

function escape(text) {
    return text.replace(ESCAPED, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

function isAddress(hostname) {
    return hostname.startsWith('[') && hostname.endsWith(']');
}

// Without white space around it, and with slashes for the backslashes before the query.
function normalize(text) {
    text = text.replace(/^[\s\ufeff]+|[\s\ufeff]+$/g, '');
    const end = text.search(/[?#]/);
    return end < 0 ? text.replaceAll('\\', '/') : text.slice(0, end).replaceAll('\\', '/') + text.slice(end);
}

// Finds where a host ends, and where its name begins. Removes the characters that are no part of a URL.
function findHost(rest) {
    let end = -1, at = -1;
    for (let index = 0; index < rest.length; index++) {
        const character = rest[index];
        if (character === '\t' || character === '\n' || character === '\r') {
            rest = rest.slice(0, index) + rest.slice(index + 1);
            index -= 1;
        } else if (/[ "%';<>\\^`{|}]/.test(character)) {
            if (end < 0) end = index;
        } else if (character === '#' || character === '/' || character === '?') {
            if (end < 0) end = index;
            break;
        } else if (character === '@') {
            at = index;
            end = -1;
        }
    }
    return { rest, end, at };
}

// Sets the properties for the host of a URL, and returns what follows it. `tools` are functions of node:url.
function parseHost(url, rest, input, tools) {
    const found = findHost(rest);
    ({ rest } = found);
    let start = 0;
    if (found.at >= 0) {
        url.auth = decodeURIComponent(rest.slice(0, found.at));
        start = found.at + 1;
    }
    const end = found.end < 0 ? rest.length : found.end;
    let host = rest.slice(start, end);
    rest = rest.slice(end);
    const port = /:[0-9]*$/.exec(host);
    if (port !== null) {
        if (port[0] !== ':') url.port = port[0].slice(1);
        host = host.slice(0, -port[0].length);
    }
    let hostname = host;
    const isIpv6 = isAddress(hostname);
    if (!isIpv6) {
        const wrong = hostname.search(/[/\\#?:]/);
        if (wrong >= 0) {
            if (hostname[wrong] === ':') tools.warn(input);
            rest = `/${hostname.slice(wrong)}${rest}`;
            hostname = hostname.slice(0, wrong);
        }
    }
    hostname = hostname.length > 255 ? '' : hostname.toLowerCase();
    if (hostname !== '') {
        if (isIpv6) {
            if (FORBIDDEN_IN_ADDRESS.test(hostname)) throw tools.invalid(input);
        } else {
            hostname = tools.toASCII(hostname);
            if (!hostname || FORBIDDEN_IN_HOST.test(hostname)) throw tools.invalid(input);
        }
    }
    url.host = hostname + (url.port ? `:${url.port}` : '');
    url.hostname = isIpv6 ? hostname.slice(1, -1) : hostname;
    return isIpv6 && rest[0] !== '/' ? `/${rest}` : rest;
}

export function parseLegacy(url, input, { parsesQuery, slashesDenoteHost }, tools) {
    const query = (search) => (parsesQuery ? tools.parseQuery(search) : search);
    let rest = normalize(input);
    const simple = slashesDenoteHost || /[#@]/.test(rest) ? null : /^(\/\/?(?!\/)[^?\s]*)(\?[^\s]*)?$/.exec(rest);
    if (simple !== null) {
        url.path = url.href = rest;
        url.pathname = simple[1];
        if (simple[2]) {
            url.search = simple[2];
            url.query = query(url.search.slice(1));
        } else if (parsesQuery) {
            url.search = null;
            url.query = Object.create(null);
        }
        return url;
    }
    const protocol = /^[a-z0-9.+-]+:/i.exec(rest)?.[0];
    const name = protocol?.toLowerCase();
    if (protocol !== undefined) {
        url.protocol = name;
        rest = rest.slice(protocol.length);
    }
    let slashes = false;
    if (slashesDenoteHost || protocol !== undefined || /^\/\/[^@/]+@[^@/]+/.test(rest)) {
        slashes = rest.startsWith('//');
        if (slashes && !HOSTLESS.has(name)) {
            rest = rest.slice(2);
            url.slashes = true;
        }
    }
    if (!HOSTLESS.has(name) && (slashes || protocol !== undefined && !SLASHED.has(protocol))) rest = parseHost(url, rest, input, tools);
    if (!HOSTLESS.has(name)) rest = escape(rest);
    const hash = rest.indexOf('#');
    if (hash >= 0) {
        url.hash = rest.slice(hash);
        rest = rest.slice(0, hash);
    }
    const question = rest.indexOf('?');
    if (question >= 0) {
        url.search = rest.slice(question);
        url.query = query(rest.slice(question + 1));
        rest = rest.slice(0, question);
    } else if (parsesQuery) {
        url.search = null;
        url.query = Object.create(null);
    }
    if (rest !== '') url.pathname = rest;
    if (SLASHED.has(name) && url.hostname && !url.pathname) url.pathname = '/';
    if (url.pathname || url.search) url.path = (url.pathname || '') + (url.search || '');
    url.href = formatLegacy(url, tools);
    return url;
}

export function formatLegacy(url, tools) {
    const auth = url.auth ? `${encodeURIComponent(url.auth).replaceAll('%3A', ':')}@` : '';
    let protocol = url.protocol || '';
    let pathname = url.pathname || '';
    let hash = url.hash || '';
    let host = '';
    if (url.host) {
        host = auth + url.host;
    } else if (url.hostname) {
        host = auth + (url.hostname.includes(':') && !isAddress(url.hostname) ? `[${url.hostname}]` : url.hostname);
        if (url.port) host += `:${url.port}`;
    }
    const query = url.query !== null && typeof url.query === 'object' ? tools.stringifyQuery(url.query) : '';
    let search = url.search || (query && `?${query}`) || '';
    if (protocol && !protocol.endsWith(':')) protocol += ':';
    pathname = pathname.replaceAll('#', '%23').replaceAll('?', '%3F');
    if (url.slashes || SLASHED.has(protocol)) {
        if (url.slashes || host) {
            if (pathname && pathname[0] !== '/') pathname = `/${pathname}`;
            host = `//${host}`;
        } else if (protocol.startsWith('file')) {
            host = '//';
        }
    }
    search = search.replaceAll('#', '%23');
    if (hash && hash[0] !== '#') hash = `#${hash}`;
    if (search && search[0] !== '?') search = `?${search}`;
    return protocol + host + pathname + search + hash;
}
