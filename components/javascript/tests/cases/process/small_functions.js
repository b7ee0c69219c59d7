process.on('warning', (warning) => console.log(warning.code, warning.message));
try { process.assert(false, 'message'); } catch (error) { console.log(error.code, error.message); }
for (const call of [() => process.kill('x'), () => process.kill(0, 'NONE'), () => process.kill(process.pid, 999), () => process.execve(1), () => process.execve('/bin/ls', [1]), () => process.finalization.register(1)]) {
  try { call(); } catch (error) { console.log(error.name, error.code, error.message.split('\n')[0]); }
}
console.log(process.kill(process.pid, 0), delete process.title, typeof process.openStdin);
process.setUncaughtExceptionCaptureCallback(() => {});
try { process.setUncaughtExceptionCaptureCallback(() => {}); } catch (error) { console.log(error.code); }
process.setUncaughtExceptionCaptureCallback(null);
globalThis.kept = { name: 'kept' };
process.finalization.register(globalThis.kept, (object, event) => console.log('finalized', object.name, event));
setTimeout(() => console.log(process.getActiveResourcesInfo().filter((name) => name === 'Timeout')), 1);
