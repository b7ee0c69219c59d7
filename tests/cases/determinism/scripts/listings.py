import os, glob, pathlib
print(os.listdir("/workspace/many"), os.listdir("/"), os.listdir("/workspace"), os.listdir("/usr/bin")[:9])
print([(e.name, e.inode(), e.is_file()) for e in os.scandir("/workspace/many")])
print(glob.glob("/workspace/**/*", recursive=True))
print(list(pathlib.Path("/workspace").rglob("*.txt")), list(pathlib.Path("/data").iterdir()))
for step in os.walk("/workspace"):
    print(step)
