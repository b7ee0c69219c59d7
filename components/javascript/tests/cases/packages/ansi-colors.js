const c = require('ansi-colors'); c.enabled = true; console.log(JSON.stringify(c.red.bold('x')), c.unstyle(c.green('g')), c.symbols.check);
