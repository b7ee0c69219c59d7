import os, tempfile
print(tempfile.gettempdir(), tempfile.mkdtemp(), tempfile.mktemp())
handle, path = tempfile.mkstemp(suffix=".x")
os.write(handle, b"x")
os.close(handle)
with tempfile.NamedTemporaryFile(delete=False) as named, tempfile.TemporaryDirectory() as folder:
    print(path, named.name, folder, sorted(os.listdir("/tmp")))
