import os, hashlib
print(os.urandom(33).hex(), hashlib.sha256(os.urandom(100_000)).hexdigest())
with open("/dev/urandom", "rb") as device:
    print(device.read(40).hex())
with open("/dev/random", "rb", buffering=0) as device:
    print(device.read(8).hex(), device.read(8).hex())
