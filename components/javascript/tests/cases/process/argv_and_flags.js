// argv: --name=x -v 'two words' ''
console.log(process.argv.length, process.argv.slice(2), process.argv[1] === __filename, process.argv0 !== undefined, process.execArgv);
console.log(typeof process.execPath, process.title.length > 0, process.version.split('.')[0], process.versions.node.split('.')[0], process.release.name);
