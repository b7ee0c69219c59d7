// run: -e "console.log(typeof require, __filename, process.argv.length, module.paths.length > 0, require('path').basename('/x/y'))"
