console.log(require('plain'), require('plain/sub'), require('plain/lib/deep.js'), require('noindex'), require('dotmain'), require('@scope/pkg'), require('plain/package.json').version);
//// file: node_modules/plain/package.json
{ "name": "plain", "version": "1.2.3", "main": "lib/main" }
//// file: node_modules/plain/lib/main.js
module.exports = 'plain main';
//// file: node_modules/plain/lib/deep.js
module.exports = 'deep';
//// file: node_modules/plain/sub.js
module.exports = 'sub';
//// file: node_modules/noindex/index.js
module.exports = 'no package.json';
//// file: node_modules/dotmain/package.json
{ "main": "." }
//// file: node_modules/dotmain/index.js
module.exports = 'dot main';
//// file: node_modules/@scope/pkg/index.js
module.exports = 'scoped';
