import json
import math
import re
import sys


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def nbody(steps):
    bodies = [[n * 1.1, n * 0.7, n * 0.3, 0.0, 0.0, 0.0, 1.0 / (n + 1)] for n in range(5)]
    for _ in range(steps):
        for i, a in enumerate(bodies):
            for b in bodies[i + 1 :]:
                dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
                distance = math.sqrt(dx * dx + dy * dy + dz * dz) + 0.01
                force = 0.001 / (distance * distance * distance)
                for body, other, sign in ((a, b[6], -force), (b, a[6], force)):
                    body[3] += dx * other * sign
                    body[4] += dy * other * sign
                    body[5] += dz * other * sign
        for body in bodies:
            for axis in range(3):
                body[axis] += 0.001 * body[axis + 3]
    return bodies


def text(rounds):
    rows = [{"id": n, "name": f"name {n * 7919 % 1000}", "tags": ["a", "b", str(n)]} for n in range(500)]
    for _ in range(rounds):
        again = json.loads(json.dumps(rows))
        again.sort(key=lambda row: row["name"])
        assert len(re.findall(r"name (\d+)", json.dumps(again))) == 500


{"nothing": lambda: None, "fib": lambda: fib(27), "nbody": lambda: nbody(8_000), "text": lambda: text(60)}[sys.argv[1]]()
