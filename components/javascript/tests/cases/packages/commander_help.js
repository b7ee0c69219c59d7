// argv: --help
const { program } = require('commander'); program.name('t').option('-p, --port <number>', 'port', '80').argument('<file>').parse();
