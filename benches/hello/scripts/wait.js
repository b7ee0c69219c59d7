console.log("ready");
process.stdin.resume();
