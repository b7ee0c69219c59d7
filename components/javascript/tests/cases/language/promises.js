const wait = (ms, value, fail) => new Promise((resolve, reject) => setTimeout(fail ? reject : resolve, ms, value));
(async () => {
  console.log(await Promise.all([wait(5, 'a'), 'b', wait(1, 'c')]));
  console.log(await Promise.allSettled([wait(1, 'ok'), wait(1, new Error('no'), true)]).then((all) => all.map((r) => [r.status, r.value ?? r.reason.message])));
  console.log(await Promise.race([wait(50, 'slow'), wait(1, 'fast')]));
  try { await Promise.any([wait(1, 'x', true), wait(2, 'y', true)]); } catch (e) { console.log(e.constructor.name, e.message, e.errors); }
  console.log(await Promise.any([wait(1, 'x', true), wait(2, 'won')]));
  const { promise, resolve } = Promise.withResolvers();
  setTimeout(resolve, 1, 'resolved outside');
  console.log(await promise);
  await wait(1).finally(() => console.log('finally'));
  console.log(await { then(ok) { ok('thenable'); } });
})();
