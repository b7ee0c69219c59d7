import os


def tell(work):
    try:
        return work()
    except OSError as error:
        print(type(error).__name__, error.errno, error.filename)


new = tell(lambda: os.open("lock", os.O_CREAT | os.O_EXCL))
print(os.read(new, 1), os.path.getsize("lock"))
tell(lambda: os.open("lock", os.O_CREAT | os.O_EXCL))
tell(lambda: os.write(new, b"x"))
os.close(new)
with open("lock", "w") as file:
    file.write("text")
old = os.open("lock", 0)
print(os.read(old, 9))
os.close(old)
again = os.open("lock", os.O_CREAT)
print(os.read(again, 9))
tell(lambda: os.open("nowhere", 0))
print(os.path.isdir("broken"), os.open("broken", os.O_DIRECTORY) > 2)
