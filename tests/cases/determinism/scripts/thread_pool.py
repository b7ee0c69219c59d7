import concurrent.futures as futures, time
def work(n):
    time.sleep((n * 7 % 5) / 100)
    return n, time.time()
with futures.ThreadPoolExecutor(4) as pool:
    print([f.result() for f in futures.as_completed([pool.submit(work, n) for n in range(12)])])
