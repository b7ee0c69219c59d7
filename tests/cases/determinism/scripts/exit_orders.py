import atexit, threading, time
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone", self.name, time.monotonic())
keep = {name: Loud(name) for name in {"a", "b", "c", "d"}}
atexit.register(lambda: print("at exit", len(keep)))
threading.Thread(target=lambda: (time.sleep(1), print("late thread"))).start()
print("end of main")
