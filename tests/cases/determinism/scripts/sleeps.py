import time
start = time.monotonic()
for seconds in [0, 0.001, 1, 3600, 86400 * 365]:
    time.sleep(seconds)
    print(seconds, time.monotonic() - start, time.time())
