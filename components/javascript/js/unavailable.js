// Modules that the sandbox does not have: their functions say so.

function unavailable(name) {
    const stub = { [name]() {
        throw Object.assign(new Error(`${name} is unavailable on the current platform, which is being used to run Node.js: it does not exist in the sandbox`), {
            code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
        });
    } };
    return stub[name];
}

export const url = () => undefined;
export const connect = unavailable('connect'), createServer = unavailable('createServer'), createSocket = unavailable('createSocket');
export const open = unavailable('open'), start = unavailable('start'), WASI = unavailable('WASI'), Session = unavailable('Session');
export const isPrimary = true, isMaster = true, isWorker = false;

export default { url, connect, createServer, createSocket, open, start, WASI, Session, isPrimary, isMaster, isWorker };
