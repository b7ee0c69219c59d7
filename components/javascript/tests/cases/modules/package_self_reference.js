console.log(require('selfish'), require('selfish/util'), require.resolve('selfish') === __dirname + '/entry.js');
//// file: package.json
{ "name": "selfish", "exports": { ".": "./entry.js", "./util": "./u.js" } }
//// file: entry.js
module.exports = 'own entry';
//// file: u.js
module.exports = 'own util';
