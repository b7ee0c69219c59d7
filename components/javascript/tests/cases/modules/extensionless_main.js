// run: tool x
//// file: tool
#!/usr/bin/env node
console.log('hashbang skipped', process.argv[2], require('./n.node.js'));
//// file: n.node.js
module.exports = 1;
