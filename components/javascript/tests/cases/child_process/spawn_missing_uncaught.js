require('child_process').spawn('no-such-program');
