function Outer() { this.run = function method() { return new Error('here').stack; }; }
class K { static s() { return new Error('static').stack; } get g() { return new Error('getter').stack; } async a() { await null; return new Error('async').stack; } }
const show = (stack) => console.log(stack.split('\n').slice(0, 2).map((l) => l.trim().replace(/\(?[^( ]*\/([^/]+\.js)/, '($1').replace(/:\d+\)?$/, '')).join(' | '));
show(new Outer().run()); show(K.s()); show(new K().g); show((() => new Error('arrow').stack)()); show([1].map(() => new Error('in map').stack)[0]); new K().a().then(show);
