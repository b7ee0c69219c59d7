# sandbox: a native python3 hangs here
import queue

print("before")
try:
    queue.Queue().get()
except RuntimeError as error:
    print(str(error).split(":")[0])
