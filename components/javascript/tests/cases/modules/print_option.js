// run: -p "[1, { a: 2 }, process.argv.slice(1)]" one two
