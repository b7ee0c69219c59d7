const a: number = ;
