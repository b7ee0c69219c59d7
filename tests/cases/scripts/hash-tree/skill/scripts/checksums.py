#!/usr/bin/env python3
# Checksums of all files of a folder, several at a time; finds duplicates.
import argparse
import binascii
import hashlib
import os
import queue
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed


def digest(path, algorithm, size=4096):
    h = hashlib.new(algorithm)
    with open(path, "rb") as f:
        while chunk := f.read(size):
            h.update(chunk)
    return h.hexdigest()


def files_of(root):
    for folder, dirs, names in os.walk(root):
        dirs.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("root")
    p.add_argument("--workers", type=int, default=os.cpu_count())
    p.add_argument("--algorithm", default="sha256", choices=sorted(hashlib.algorithms_guaranteed))
    p.add_argument("--manifest")
    args = p.parse_args()

    paths = list(files_of(args.root))
    results, lock = {}, threading.Lock()
    with ThreadPoolExecutor(max_workers=args.workers) as pool:
        futures = {pool.submit(digest, path, args.algorithm): path for path in paths}
        for future in as_completed(futures):
            with lock:
                results[futures[future]] = future.result()
        missing = pool.submit(digest, "nicht da", args.algorithm)
        print("missing:", type(missing.exception()).__name__)
        print(list(pool.map(os.path.getsize, paths)))

    groups = defaultdict(list)
    for path in paths:
        groups[results[path]].append(path)
        print(results[path][:16], path)
    for same in groups.values():
        if len(same) > 1:
            print("same:", ", ".join(same))
    if args.manifest:
        with open(args.manifest, "w") as f:
            f.write(f"# {os.getenv('SOURCE_DATE')} — {args.algorithm}\n")
            f.writelines(f"{results[p]}  {p}\n" for p in paths)

    # A worker thread that takes from a queue until it is told to stop.
    todo, sizes = queue.Queue(), []

    def worker():
        while (path := todo.get()) is not None:
            sizes.append((path, os.stat(path).st_size))
            todo.task_done()

    thread = threading.Thread(target=worker, daemon=True)
    thread.start()
    for path in paths:
        todo.put(path)
    todo.put(None)
    thread.join()
    print(sorted(sizes)[0], thread.is_alive())
    for name in ("md5", "sha1", "sha3_256", "blake2b"):
        print(name, hashlib.new(name, b"tea").hexdigest()[:24])
    print(hashlib.pbkdf2_hmac("sha256", b"pw", b"salt", 1000).hex()[:24], binascii.crc32(b"tea"))


if __name__ == "__main__":
    sys.exit(main())
