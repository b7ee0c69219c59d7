import queue
import threading

work, results, lock = queue.Queue(), [], threading.Lock()


def worker():
    while True:
        item = work.get()
        with lock:
            results.append(item)
        work.task_done()


for _ in range(3):
    threading.Thread(target=worker, daemon=True).start()
for number in range(6):
    work.put(number)
work.join()
print(sorted(results))
