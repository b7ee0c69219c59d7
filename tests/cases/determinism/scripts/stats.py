import os, time
for path in ["/", "/skill", "/workspace", "/workspace/table.csv", "/workspace/many", "/tmp", "/data", "/data/one/x", "/dev/null"]:
    print(path, os.stat(path))
open("/workspace/new", "w").write("1")
print(os.stat("/workspace/new"), os.stat("/workspace"))
time.sleep(10)
open("/workspace/table.csv", "a").write("z9,Zed,0\n")
print(os.stat("/workspace/table.csv"), os.path.getmtime("/workspace/new"))
