const { execSync } = require('child_process'); execSync('exit 4', { stdio: 'pipe' });
