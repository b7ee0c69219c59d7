import timeit, cProfile, io, pstats, time
print(timeit.timeit("sum(range(100))", number=1000), timeit.repeat("x = 1", number=10, repeat=3))
start = time.perf_counter()
sum(n * n for n in range(50000))
print(time.perf_counter() - start)
