const fs = require('fs'); fs.mkdirSync('node_modules'); fs.symlinkSync('../real', 'node_modules/linked'); console.log(require('linked').replace(__dirname, ''), require.resolve('linked').replace(__dirname, ''));
//// file: real/index.js
module.exports = __filename;
