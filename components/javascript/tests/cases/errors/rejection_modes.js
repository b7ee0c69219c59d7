// run: --unhandled-rejections=warn rejection_modes.js
process.on('warning', (warning) => console.log(warning.name, '|', warning.message.split('\n')[0]));
process.on('rejectionHandled', (promise) => console.log('handled', promise === late));
const late = Promise.reject('text');
setImmediate(() => late.catch(() => {}));
setTimeout(() => console.log('end'), 20);
Promise.reject(Symbol('reason'));
Promise.reject(new Error('an error'));
Promise.reject({ stack: 'like an error' });
