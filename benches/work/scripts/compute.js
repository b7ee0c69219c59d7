function fib(n) {
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

function nbody(steps) {
    const bodies = Array.from({ length: 5 }, (_, n) => [n * 1.1, n * 0.7, n * 0.3, 0, 0, 0, 1 / (n + 1)]);
    for (let step = 0; step < steps; step++) {
        bodies.forEach((a, i) => {
            for (const b of bodies.slice(i + 1)) {
                const [dx, dy, dz] = [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
                const distance = Math.sqrt(dx * dx + dy * dy + dz * dz) + 0.01;
                const force = 0.001 / (distance * distance * distance);
                for (const [body, other, sign] of [[a, b[6], -force], [b, a[6], force]]) {
                    body[3] += dx * other * sign;
                    body[4] += dy * other * sign;
                    body[5] += dz * other * sign;
                }
            }
        });
        for (const body of bodies) for (let axis = 0; axis < 3; axis++) body[axis] += 0.001 * body[axis + 3];
    }
    return bodies;
}

function expressions(rounds) {
    const text = Array.from({ length: 2000 }, (_, n) => `2024-0${(n % 9) + 1}-11 name${(n * 7919) % 1000}@example.com "GET /a/${n}" ${200 + n}`).join("\n");
    let count = 0;
    for (let round = 0; round < rounds; round++) {
        count += text.match(/(\d{4})-(\d\d)-(\d\d)/g).length;
        count += [...text.matchAll(/([\w.]+)@([\w.]+)/g)].length;
        count += text.replace(/"GET ([^"]*)" (\d+)/g, "$2 $1").length;
        count += text.split(/\s+/).filter((word) => /^name\d+[05]@/.test(word)).length;
    }
    return count;
}

function strings(rounds) {
    let length = 0;
    for (let round = 0; round < rounds; round++) {
        let text = "";
        for (let n = 0; n < 10_000; n++) text += `line ${n}: ${n * 31}\n`;
        length += text.split("\n").map((line) => line.trim().toUpperCase().padEnd(20, ".")).join("\n").length;
    }
    return length;
}

({ nothing: () => {}, fib: () => fib(27), nbody: () => nbody(8_000), expressions: () => expressions(10), strings: () => strings(10) })[process.argv[2]]();
