const values = [NaN, 0 / 0, Infinity - Infinity, Math.sqrt(-1), 0.1 + 0.2, 1e308 * 10, -0, 2 ** 53 + 1, 5e-324];
console.log(values, Buffer.from(new Float64Array(values).buffer).toString('hex'));
console.log(['sin', 'cos', 'tan', 'exp', 'log', 'cbrt', 'atanh', 'log1p', 'expm1', 'sinh'].map((name) => Math[name](1.2345)), 1.1 ** 100.5, Math.hypot(1.1, 2.2, 3.3));
console.log((0.000001234).toString(36), (123.456).toFixed(10), (1e21).toLocaleString(), 1 / 3, (25).toString(2), parseFloat('1e-400'));
