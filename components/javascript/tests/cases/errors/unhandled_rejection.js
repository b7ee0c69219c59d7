// stderr: yes
Promise.reject(new Error('nobody cares'));
setTimeout(() => console.log('not reached'), 20);
