enum Colour { Red, Green = 5, Blue }
interface Point<T extends number = number> { x: T; y: T }
class Walk {
    constructor(private readonly steps: Point[], public at: number = Date.now()) {}
    get length(): number { return this.steps.reduce((sum, { x, y }) => sum + Math.hypot(x, y), 0); }
}
const steps = Array.from({ length: 50 }, (): Point => ({ x: Math.random(), y: Math.random() }));
console.log(Colour, new Walk(steps), new Walk(steps).length satisfies number);
console.log(new Set(steps.map(({ x }) => Math.floor(x * 10))), Object.groupBy(steps, ({ y }) => String(y > 0.5)));
