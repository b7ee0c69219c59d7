import threading


def fail():
    raise ValueError("in a thread")


threading.excepthook = lambda args: print("hook:", args.exc_type.__name__, args.thread.name)
thread = threading.Thread(target=fail, name="failing")
thread.start()
thread.join()
event = threading.Event()
print(event.wait(0.01), threading.current_thread().name, threading.main_thread() is threading.current_thread())
