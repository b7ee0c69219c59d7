from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
import multiprocessing


def square(n):
    if n == 13:
        raise ValueError("unlucky")
    return n * n


if __name__ == "__main__":
    with ThreadPoolExecutor(max_workers=4) as pool:
        print(list(pool.map(square, range(5))))
        futures = {pool.submit(square, n): n for n in (2, 13)}
        for future in sorted(as_completed(futures), key=futures.get):
            print(futures[future], future.exception() or future.result())
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, [1, 2, 3]), pool.starmap(pow, [(2, 3)]), pool.apply_async(square, (4,)).get(timeout=5), list(pool.imap_unordered(square, [5])))
    with ProcessPoolExecutor() as pool:
        print(pool.submit(square, 6).result())
