// argv: --help
const yargs = require('yargs'); yargs(process.argv.slice(2)).scriptName('tool').usage('$0 [options]').option('n', { alias: 'name', describe: 'a name', demandOption: true }).wrap(60).parse();
