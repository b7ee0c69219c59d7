import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x")
    open(path, "w").write("1")
    print(os.listdir(folder), folder.startswith(tempfile.gettempdir()))
print(os.path.exists(folder))
with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("ä")
    file.seek(0)
    print(file.read(), file.name.endswith(".txt"))
print(len({tempfile.mktemp() for _ in range(3)}))
