// run: --no-warnings -e "console.log(process._eval.length, process.execArgv.length); require('child_process').fork('./child.js', ['a'])" b
console.log('never run');
//// file: child.js
console.log(process.execArgv, process.argv.slice(2), process._eval);
