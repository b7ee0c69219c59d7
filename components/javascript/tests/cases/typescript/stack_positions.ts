interface Long {
  a: number;
  b: string;
}

function fail(x: Long): never {
  throw new Error(`at line ${x.a}`);
}
try { fail({ a: 7, b: '' }); } catch (e) { console.log((e as Error).stack!.split('\n')[1].match(/:(\d+):/)![1]); }
