const { execFileSync, spawnSync } = require('child_process'); console.log(execFileSync('python3', ['-c', 'import sys, json; print(json.dumps({"sum": sum(json.load(sys.stdin))}))'], { input: JSON.stringify([1, 2, 3]), encoding: 'utf8' })); const r = spawnSync('python3', ['s.py', 'a'], { encoding: 'utf8' }); console.log(r.status, r.stdout, r.stderr);
//// file: s.py
import sys
print(sys.argv)
sys.exit("bad thing")
