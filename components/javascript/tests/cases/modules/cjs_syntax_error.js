try { require('./broken.js'); } catch (e) { console.log(e.name, e instanceof SyntaxError); }
require('./broken.js');
//// file: broken.js
const a = 1;
const b = ;
