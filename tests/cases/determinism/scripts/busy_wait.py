import time
start, turns = time.monotonic(), 0
while time.monotonic() - start < 0.01:
    turns += 1
print(turns, time.monotonic())
