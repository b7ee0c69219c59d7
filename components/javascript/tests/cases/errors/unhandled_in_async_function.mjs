async function work() { await null; throw new SyntaxError('async failure'); } work(); console.log('started');
