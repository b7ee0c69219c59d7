const fs = require('fs'), { execFileSync } = require('child_process'); fs.chmodSync('tool.sh', 0o755); console.log(execFileSync('./tool.sh', ['1'], { encoding: 'utf8' }));
//// file: tool.sh
#!/bin/sh
echo "tool $1"
