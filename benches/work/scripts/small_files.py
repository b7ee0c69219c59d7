import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    for n in range(2_000):
        with open(os.path.join(folder, f"{n}.txt"), "w") as file:
            file.write("a line\n")
    total = 0
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            total += len(file.read())
    assert total == 14_000
