function a() {
  return new Error('line two').stack;
}
const lines = (stack) => stack.split('\n').slice(1, 3).map((line) => line.match(/:(\d+):\d+\)?$/)?.[1]);
console.log(lines(a()));
console.log(lines(
  a(),
));
try {
  null.x;
} catch (e) { console.log(lines(e.stack)[0]); }
