#!/usr/bin/env python3
"""Evaluates an A/B test: means, medians, bootstrap interval, permutation test."""
import argparse
import bisect
import csv
import heapq
import itertools
import math
import random
import statistics
from collections import OrderedDict
from fractions import Fraction


def load(path):
    groups = OrderedDict()
    with open(path) as f:
        for row in csv.DictReader(f, dialect="excel-tab"):
            groups.setdefault(row["gruppe"], []).append(float(row["wert"].replace(",", ".")))
    return groups


def bootstrap(values, rounds, rng):
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(rounds))
    return means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def permutation(a, b, rounds, rng):
    seen = abs(statistics.fmean(a) - statistics.fmean(b))
    pool, hits = a + b, 0
    for _ in range(rounds):
        rng.shuffle(pool)
        hits += abs(statistics.fmean(pool[: len(a)]) - statistics.fmean(pool[len(a):])) >= seen
    return Fraction(hits, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1000)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    groups = load(args.file)
    for name, values in groups.items():
        low, high = bootstrap(values, args.rounds, rng)
        print(f"{name}: n={len(values)} x̄={statistics.mean(values):.4f} median={statistics.median(values)} σ={statistics.stdev(values):.6f} 95 %: {low:.4f}…{high:.4f}")
        print("  quartile", [round(q, 3) for q in statistics.quantiles(values, n=4)], "mode", statistics.multimode(map(round, values)))
    a, b = groups.values()
    p = permutation(a, b, args.rounds, rng)
    slope, intercept = statistics.linear_regression(range(len(a)), a)
    print(f"p = {p} = {float(p):.3f}, trend {slope:.9f} from {intercept:.9f}")
    print(f"r = {statistics.correlation(a[:8], b[:8]):.9f}", math.dist((0, 0), (3, 4)), math.comb(40, 20), math.isclose(0.1 + 0.2, 0.3))
    print(rng.randint(1, 6), rng.random(), rng.gauss(0, 1), rng.sample(range(100), 5), rng.choice("äöü"), rng.uniform(1, 2))
    print(heapq.nlargest(3, a), bisect.bisect([1, 2, 2, 3], 2), list(itertools.accumulate([1, 2, 3], max)), list(itertools.pairwise("abc")))
    print(0.1 + 0.2, 1e16, 1e-7, float("inf"), -0.0, round(2.5), round(2.675, 2), f"{1234567.891:,.2f}", f"{0.000123:e}", 7 // -2, -7 % 3, 2**100)
    # The last digit of these is the C library's own.
    print(*(f"{x:.14g}" for x in (math.sin(1), math.exp(1.5), math.log(10), math.gamma(4.5), math.erf(0.3), math.tanh(0.7))), math.fsum([0.1] * 10))


if __name__ == "__main__":
    main()
