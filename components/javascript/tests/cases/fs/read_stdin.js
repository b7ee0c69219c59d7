// stdin: "first\nsecond\n"
const fs = require('fs'); const text = fs.readFileSync(0, 'utf8'); console.log(text.split('\n'));
