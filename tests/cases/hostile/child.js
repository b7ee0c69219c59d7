// Started by node-options.js: attempts the same with what its options have loaded.
require('./attempts.js')('a child');
