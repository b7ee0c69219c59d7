try { require('./missing'); } catch (e) { console.log(e.code, e.message.split('\n')[0], e.requireStack.length); }
try { require('no-such-package'); } catch (e) { console.log(e.code, e.message); }
try { require('node:no-such'); } catch (e) { console.log(e.code, e.message); }
try { require(''); } catch (e) { console.log(e.code, e.message); }
try { require(5); } catch (e) { console.log(e.code, e.message); }
try { require('./bad.json'); } catch (e) { console.log(e.name, e.message.startsWith(__dirname + '/bad.json: ')); }
require('./really-missing');
//// file: bad.json
{ "a": }
