export const helper = (x: unknown): void => console.log(x);
