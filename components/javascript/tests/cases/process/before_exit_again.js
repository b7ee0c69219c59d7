let n = 0; process.on('beforeExit', () => { if (n++ < 2) setTimeout(() => console.log('more work', n), 1); else console.log('nothing left'); });
