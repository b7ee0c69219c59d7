const fs = require('fs'); fs.writeFileSync('b', 'B'); fs.linkSync('b', 'hard'); console.log(fs.readFileSync('hard', 'utf8'), fs.statSync('b').nlink);
