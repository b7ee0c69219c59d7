try { require('fs'); } catch (e) { console.log(e.name, e.message.split(',')[0]); }
console.log(__dirname);
