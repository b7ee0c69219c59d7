const vm = require('vm'); try { vm.runInThisContext('for (;;);', { timeout: 30 }); } catch (e) { console.log(e.code, e.message); }
