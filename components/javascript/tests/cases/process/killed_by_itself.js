console.log('before'); process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 5000);
