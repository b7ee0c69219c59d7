const { execSync, spawnSync } = require('child_process');
const fs = require('fs');

const run = (command, options = {}) => execSync(command, { encoding: 'utf8', ...options }).trim();
fs.writeFileSync('numbers.txt', Array.from({ length: 20 }, (_, i) => (i * 7) % 11).join('\n') + '\n');
console.log('unique:', run('sort -n numbers.txt | uniq | wc -l'));
console.log('top:', run("sort -n numbers.txt | uniq -c | sort -k1,1nr -k2,2n | head -3 | awk '{print $2 \"x\" $1}'").split('\n'));
const py = spawnSync('python3', ['-c', 'import json,sys,statistics as s; d=[int(x) for x in sys.stdin]; print(json.dumps({"mean": s.mean(d), "median": s.median(d), "max": max(d)}))'], { input: fs.readFileSync('numbers.txt') });
if (py.status !== 0) { console.error(String(py.stderr)); process.exit(1); }
console.log('python:', JSON.parse(py.stdout));
console.log('grep count:', run('grep -c 5 numbers.txt || true'), 'sum:', run("awk '{s+=$1} END {print s}' numbers.txt"));
fs.unlinkSync('numbers.txt');
