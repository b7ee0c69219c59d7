// run: --check broken.js
//// file: broken.js
let a = 1;
let a = 2;
