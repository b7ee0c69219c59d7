import queue
import threading

work, results = queue.Queue(maxsize=2), []


def consumer():
    while (item := work.get()) is not None:
        results.append(item * item)
        work.task_done()


thread = threading.Thread(target=consumer, name="consumer")
thread.start()
for number in range(10):
    work.put(number)
work.put(None)
thread.join()
print(results, thread.is_alive(), thread.name, threading.active_count())
