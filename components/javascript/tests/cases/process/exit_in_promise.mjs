process.on('exit', (c) => console.log('exit', c)); await null; Promise.resolve().then(() => process.exit(2)); setTimeout(() => console.log('late'), 10);
