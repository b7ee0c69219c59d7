// run: app
//// file: app/package.json
{ "main": "start.js" }
//// file: app/start.js
console.log('started', require.main === module, process.argv[1].endsWith('/app'));
