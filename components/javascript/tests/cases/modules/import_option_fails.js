// run: --import ./throws.mjs import_option_fails.js
console.log('never');
//// file: throws.mjs
throw new Error('from the import');
