process.on('uncaughtExceptionMonitor', (e, origin) => console.log('monitor', e.message, origin)); process.on('exit', (c) => console.log('exit', c)); throw new RangeError('seen by the monitor');
