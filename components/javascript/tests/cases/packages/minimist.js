// argv: -abc --n=5 --flag pos --list x --list y -- rest --raw
const minimist = require('minimist'); console.log(minimist(process.argv.slice(2), { boolean: ['flag'], string: ['n'], alias: { a: 'all' }, default: { d: 1 } }), minimist(['--no-x', '-n3']));
