import queue, threading
jobs, done = queue.Queue(3), queue.Queue()
def work(name):
    while (job := jobs.get()) is not None:
        done.put((name, job, sum(range(job * 1000))))
workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
[w.start() for w in workers]
[jobs.put(n) for n in range(20)]; [jobs.put(None) for _ in workers]
[w.join() for w in workers]
print([done.get() for _ in range(20)])
