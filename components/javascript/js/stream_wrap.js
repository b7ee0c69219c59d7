// node:_stream_wrap, which Node deprecates: sockets over streams.

globalThis.process.emitWarning('The _stream_wrap module is deprecated.', 'DeprecationWarning', 'DEP0125');

export default class JSStreamSocket {
    constructor() {
        throw Object.assign(new Error('JSStreamSocket is unavailable on the current platform, which is being used to run Node.js: the sandbox has no sockets'), {
            code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM',
        });
    }
}
