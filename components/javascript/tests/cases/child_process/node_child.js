const { execFileSync, spawnSync, execSync } = require('child_process'); console.log(execFileSync(process.execPath, ['-e', 'console.log(process.argv.slice(1), typeof process.send)', 'x'], { encoding: 'utf8' })); console.log(execSync('node child.js a b', { encoding: 'utf8' }), spawnSync('node', ['child.js', '--fail'], { encoding: 'utf8' }).status); console.log(spawnSync(process.execPath, ['-p', '1+1'], { encoding: 'utf8' }).stdout);
//// file: child.js
console.log('child', process.argv.slice(2)); if (process.argv.includes('--fail')) process.exit(8);
