class Base {
  #secret = 1;
  static count = 0;
  static #made = [];
  name = 'base';
  constructor() { Base.count++; Base.#made.push(this.name); }
  get secret() { return this.#secret; }
  set secret(value) { this.#secret = value * 2; }
  #hidden() { return 'hidden ' + this.#secret; }
  reveal() { return this.#hidden(); }
  static { this.ready = true; }
  static made() { return Base.#made; }
  static has(o) { return #secret in o; }
}
class Derived extends Base {
  name = 'derived';
  reveal() { return 'derived: ' + super.reveal(); }
  *[Symbol.iterator]() { yield* [1, 2, 3]; }
  get [Symbol.toStringTag]() { return 'Derived'; }
}
const d = new Derived();
d.secret = 21;
console.log(d.secret, d.reveal(), Base.count, Base.ready, Base.made());
console.log(Base.has(d), Base.has({}), [...d], String(d));
console.log(d instanceof Base, Object.getPrototypeOf(Derived) === Base, Derived.name, Derived.length);
console.log(new (class { static accessor = 3; })().constructor.accessor);
