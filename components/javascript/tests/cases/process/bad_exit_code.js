try { process.exitCode = 'x'; } catch (e) { console.log(e.code); } try { process.exit(1.5); } catch (e) { console.log(e.code); } process.exitCode = '5';
