import queue
import threading

work = queue.Queue()


def producer():
    for number in range(3):
        work.put(number)
    work.put(None)


threading.Thread(target=producer).start()
while (item := work.get()) is not None:
    print(item)
