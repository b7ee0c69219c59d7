import os
import tempfile

block = b"x" * 4096
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "data")
    with open(path, "wb", buffering=0) as file:
        for _ in range(12_207):
            file.write(block)
    with open(path, "rb", buffering=0) as file:
        while file.read(4096):
            pass
