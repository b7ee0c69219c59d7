const assert = require('node:assert/strict');
assert.equal(1 + 1, 3, 'arithmetic is broken');
