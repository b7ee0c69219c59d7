// env: DEBUG=app:*
const debug = require('debug'); const d = debug('app:x'); console.log(d.enabled, debug('other').enabled); const out = []; d.log = (...a) => out.push(a.length); d('hello %s %o', 'w', { a: 1 }); console.log(out);
