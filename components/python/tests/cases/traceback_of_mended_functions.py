# stderr: yes
import os
import threading

threading.Thread(target=print, args=["in a thread"]).start()
try:
    os.stat("no such file")
except FileNotFoundError:
    os.listdir("neither")
