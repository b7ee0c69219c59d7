// stderr: yes
const e = new (require('events'))(); for (let i = 0; i < 12; i++) e.on('x', () => {}); console.log(e.listenerCount('x'));
