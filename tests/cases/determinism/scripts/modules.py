import importlib, os, sys, time
sys.path.insert(0, "/workspace")
for turn in range(3):
    name = f"made{turn}"
    open(f"/workspace/{name}.py", "w").write(f"import time\nvalue = {turn} * 10\nat = time.time()\n")
    time.sleep(1)
    importlib.invalidate_caches()
    print(importlib.import_module(name).value, sys.modules[name].at, sys.modules[name].__spec__.origin)
print(sorted(os.listdir("/workspace")))
