import atexit
import threading
import time


def late():
    time.sleep(0.05)
    print("thread")


atexit.register(print, "atexit")
threading.Thread(target=late).start()
print("main")
