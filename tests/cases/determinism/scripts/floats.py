import math, struct, statistics, random
values = [math.nan, math.inf - math.inf, float("nan") * -1, math.sin(1e22), math.exp(0.1), math.gamma(5.5), math.fsum([0.1] * 10), 0.1 + 0.2, 2 ** 0.5, math.atan2(-0.0, -1)]
print([struct.pack(">d", v).hex() for v in values], max(math.nan, 1), sorted([3, math.nan, 1]))
print(statistics.stdev([random.gauss(0, 1) for _ in range(100)]), [struct.pack(">f", v).hex() for v in values[:5]])
