const dotenv = require('dotenv'); console.log(dotenv.parse('A=1\nB="x y"\n# c\nC=\'raw $A\''), dotenv.config({ quiet: true }).parsed, process.env.FROM_FILE);
//// file: .env
FROM_FILE=yes
