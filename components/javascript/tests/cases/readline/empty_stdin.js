process.stdin.on('data', () => console.log('data')).on('end', () => console.log('end at once')); console.log(require('fs').readFileSync(0, 'utf8') === '');
