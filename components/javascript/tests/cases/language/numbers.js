console.log(0.1 + 0.2, 1e21, 1e-7, 123456789012345680000, -0, [-0], 5e-324, Number.MAX_VALUE);
console.log((25).toString(2), (255).toString(16), (0.5).toString(3), (1234.5678).toFixed(2), (0.000001234).toPrecision(2), (123456).toExponential(2));
console.log(parseInt('12px'), parseFloat('.5e1x'), Number(''), Number('0x1f'), Number('1_000'), +[], +{}, 1_000_000);
console.log(Number.isSafeInteger(2 ** 53), Number.EPSILON > 0, 7 % -3, -7 % 3, 2 ** -1, ~~5.7, 5.7 | 0, -1 >>> 0, 1 << 31);
console.log(10n ** 30n, BigInt.asUintN(8, 257n), BigInt('0xff'), -7n / 2n, typeof 1n, 2n > 1, 1n == 1);
console.log(Math.hypot(3, 4), Math.sign(-3), Math.cbrt(27), Math.trunc(-4.7), Math.clz32(1), Math.fround(5.5), Math.round(-0.5), Math.max(), Math.log2(8));
console.log((1e21).toLocaleString === undefined, (1.005).toFixed(2), (1.45).toFixed(1), (8.345).toFixed(2), 4.35 * 100, 1.1 + 2.2);
