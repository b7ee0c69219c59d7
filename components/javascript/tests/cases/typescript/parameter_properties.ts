class P { constructor(public x: number, private readonly y = 2, protected z?: string) { console.log(this.x, this.y); } } console.log(new P(1));
class Q extends P { extra = 'e'; constructor(public w: string) { super(7); } } console.log(new Q('w'));
