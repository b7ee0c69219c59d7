// exit: 125
// fuel: 3000000000
console.log('starting');
require('node:child_process').spawnSync('node', ['-e', 'for (;;);']);
