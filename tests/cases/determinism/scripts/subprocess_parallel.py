import subprocess, sys, time
code = "import sys, time, random\nfor n in range(3): print(sys.argv[1], n, random.random(), flush=True); sum(range(int(sys.argv[1]) * 20000)); time.sleep(0.01 * (4 - int(sys.argv[1])))"
running = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(1, 4)]
print([p.pid for p in running], [p.wait() for p in running], time.monotonic(), flush=True)
