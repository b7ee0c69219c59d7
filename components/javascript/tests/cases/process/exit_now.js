process.on('exit', (code) => console.log('exiting with', code)); setTimeout(() => console.log('never'), 0); process.nextTick(() => console.log('never either')); process.exit(7);
