const pick = <T, K extends keyof T>(o: T, ...keys: K[]): Pick<T, K> => Object.fromEntries(keys.map((k) => [k, o[k]])) as Pick<T, K>;
const maybe = (v?: string | null): v is string => v != null; type Fn<A extends unknown[] = []> = new (...args: A) => object; let u: unique symbol; function over(a: string): string; function over(a: number): number; function over(a: any) { return a; }
async function load<T>(value: T): Promise<T> { return await Promise.resolve<T>(value); } const a = [1, 2, 3] as const; let i = a[0]!; label: for (const q of a) { if (q > 1) break label; i += q; }
console.log(pick({ x: 1, y: 2 }, 'x'), maybe('s'), over(4), i, await load<number>(5), (x => x as any)(1) < 2, typeof pick<{}, never>); export {};
