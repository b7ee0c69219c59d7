import queue
import threading

work, results = queue.Queue(maxsize=2), []


def producer():
    for n in range(20):
        work.put(n)
    work.put(None)


def consumer():
    while (n := work.get()) is not None:
        results.append(n * n)
        work.task_done()


threads = [threading.Thread(target=producer), threading.Thread(target=consumer)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results)
