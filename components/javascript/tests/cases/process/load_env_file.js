process.loadEnvFile('.env.test'); console.log(process.env.A, process.env.QUOTED, process.env.MULTI, process.env.EMPTY_ONE === '', process.env.AFTER); console.log(require('util').parseEnv('X=1\n# c\nY="two words" # tail\nexport Z=3'));
try { process.loadEnvFile('missing.env'); } catch (e) { console.log(e.code); }
//// file: .env.test
A=1
QUOTED='single # not comment'
MULTI="line one
line two"
EMPTY_ONE=
AFTER=yes # comment
