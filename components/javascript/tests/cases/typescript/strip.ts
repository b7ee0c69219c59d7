interface Shape { kind: 'circle' | 'square'; size: number }
type Area = (s: Shape) => number;
const area: Area = ({ kind, size }: Shape): number => (kind === 'circle' ? Math.PI * size ** 2 : size * size);
function identity<T extends object>(value: T, ...rest: Array<T>): T | undefined { return value as T; }
class Box<T> { private readonly value: T; static count?: number; declare hidden: string; protected name!: string; constructor(value: T) { this.value = value; } get(): T { return this.value!; } }
abstract class Base { abstract run(): void; public go(this: Base): string { return 'went'; } }
class Impl extends Base implements Iterable<number> { override run(): void {} *[Symbol.iterator](): Iterator<number> { yield 1; } }
let x = { a: 1 } satisfies Record<string, number>; let n = x.a as unknown as string; let t = <T,>(v: T) => v;
declare const external: number; declare global { interface Window { q: 1 } }
console.log(area({ kind: 'square', size: 3 }), identity({ a: 1 }), new Box<string>('boxed').get(), new Impl().go(), [...new Impl()], n, t(5), Object.keys(new Box(1)));
