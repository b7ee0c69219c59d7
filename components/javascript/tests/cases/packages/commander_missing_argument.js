// stderr: yes
const { program } = require('commander'); program.name('t').argument('<file>').parse();
