import datetime
import time

before = time.monotonic()
time.sleep(0.02)
print(0.02 <= time.monotonic() - before < 5, 1.7e9 < time.time() < 1e10, 0 <= time.process_time() < 60, time.perf_counter() > 0)
print(datetime.datetime.now().year >= 2025, datetime.datetime.fromtimestamp(0).isoformat(), time.strftime("%Y-%m-%d", time.gmtime(86400)), time.tzname[0])
