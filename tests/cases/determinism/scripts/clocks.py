import time
for name in ["time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"]:
    print(name, [getattr(time, name)() for _ in range(3)])
for name in ["time", "monotonic", "perf_counter", "process_time"]:
    print(time.get_clock_info(name))
