namespace Outer { export const a = 1; export namespace Inner { export function f() { return a + 1; } } const hidden = 2; export const b = hidden; } namespace Outer { export const c = 3; }
namespace TypesOnly { export type T = string; }
console.log(Outer, Outer.Inner.f());
