// run: no-such-script.js
