import threading, time
lock, turn, log = threading.Lock(), threading.Condition(), []
def contend(name):
    for _ in range(5):
        with lock:
            log.append(name)
        time.sleep(0.001)
threads = [threading.Thread(target=contend, args=(n,)) for n in "xyz"]
[t.start() for t in threads]; [t.join() for t in threads]
timer = threading.Timer(2, lambda: log.append("timer")); timer.start(); timer.join()
print("".join(log), threading.Event().wait(3), time.monotonic())
