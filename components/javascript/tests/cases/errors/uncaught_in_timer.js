// stderr: yes
setTimeout(() => {
  throw new RangeError('late');
}, 1);
setTimeout(() => console.log('not reached'), 20);
