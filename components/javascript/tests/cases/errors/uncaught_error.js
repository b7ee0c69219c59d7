// stderr: yes
function inner() { throw new Error('something broke'); }
function outer() { inner(); }
outer();
