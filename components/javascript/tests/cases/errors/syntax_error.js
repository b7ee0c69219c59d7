// stderr: yes
console.log('never printed');
const x = {;
