import os, random
os.makedirs("/workspace/out")
for n in range(60):
    open(f"/workspace/out/{random.getrandbits(32):08x}", "w").write(str(random.random()))
print(os.listdir("/workspace/out"))
for name in os.listdir("/workspace/out")[::3]:
    os.remove("/workspace/out/" + name)
print(len(os.listdir("/workspace/out")))
