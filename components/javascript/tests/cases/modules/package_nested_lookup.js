console.log(require('./inner/deep/file.js'), require('shared'));
//// file: inner/deep/file.js
module.exports = [require('shared'), require('top')];
//// file: inner/node_modules/shared/index.js
module.exports = 'inner shared';
//// file: node_modules/shared/index.js
module.exports = 'outer shared';
//// file: node_modules/top/index.js
module.exports = 'top';
