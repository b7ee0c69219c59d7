import threading
import time

done = threading.Event()


def spin():
    while not done.is_set():
        time.sleep(0.001)


thread = threading.Thread(target=spin, daemon=True)
thread.start()
time.sleep(0.01)
done.set()
thread.join(1)
print("done")
