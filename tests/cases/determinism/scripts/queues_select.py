import os, selectors, subprocess, sys
watch = selectors.DefaultSelector()
for n in range(3):
    child = subprocess.Popen([sys.executable, "-c", f"import time\nfor k in range(3): print({n}, k, flush=True); time.sleep(0.01 * ({n} + 1))"], stdout=subprocess.PIPE)
    watch.register(child.stdout, selectors.EVENT_READ, n)
while watch.get_map():
    for key, _ in watch.select(5):
        data = os.read(key.fileobj.fileno(), 100)
        print(key.data, data)
        if not data:
            watch.unregister(key.fileobj)
