// exit: 1
process.on('exit', (code) => console.log('exit', code, performance.now()));
setTimeout(() => { throw Object.assign(new Error(`at ${Date.now()}`), { random: Math.random() }); }, 1000);
