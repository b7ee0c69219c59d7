// stderr: yes
process.on('warning', (w) => console.log(w.name, w.message, w.code)); process.emitWarning('careful', { type: 'CustomWarning', code: 'C1' }); process.emitWarning(new Error('as error'));
