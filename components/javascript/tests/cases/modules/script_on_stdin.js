// run: - a b
// stdin: "console.log(process.argv.slice(2), __filename, require('os').EOL.length)"
