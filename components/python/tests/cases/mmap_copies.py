import mmap
import os
import re
import struct
import tempfile

path = os.path.join(tempfile.mkdtemp(), "file")
with open(path, "wb") as file:
    file.write(b"first line\nsecond line\n" + bytes(range(256)))

with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
    print(len(view), view.size(), view[:5], view[0], view[-1], view.find(b"second"), view.rfind(b"line"), b"s" in view)
    print(view.readline(), view.tell(), view.read(6), view.seek(0), view.read_byte(), list(view)[:3], view.seek(-3, os.SEEK_END), view.read())
    print([match.start() for match in re.finditer(rb"line", view)], struct.unpack_from("<I", view, 23), bytes(memoryview(view)[6:10]))
    for attempt in (lambda: view.write(b"x"), lambda: view.__setitem__(0, 1), lambda: view.resize(5)):
        try:
            attempt()
        except (TypeError, ValueError) as error:
            print(type(error).__name__, error)
print(view.closed, file.closed)
try:
    view[0]
except ValueError as error:
    print(error)

with open(path, "r+b") as file:
    view = mmap.mmap(file.fileno(), 11)
    view[0:5] = b"FIRST"
    view[6] = ord("L")
    view.seek(10)
    view.write_byte(ord("!"))
    view.move(0, 6, 4)
    print(view[:], file.tell())
    view.flush()
    print(open(path, "rb").read(14))
    view[:3] = b"abc"
    view.close()
# A map outlives its file object.
file = open(path, "r+b")
view = mmap.mmap(file.fileno(), 0)
file.close()
view[-2:] = b"ZZ"
del view
print(open(path, "rb").read(5), open(path, "rb").read()[-3:])

with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
    view[0] = 0
    print(view[0], open(path, "rb").read(1))
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
    exported = memoryview(view)
    for attempt in (view.close, lambda: view.resize(4)):
        try:
            attempt()
        except BufferError as error:
            print(type(error).__name__)
    exported.release()
    view.resize(8192)
    print(len(view), os.path.getsize(path), view[279:282])
# A map that grows has what the file has there.
with open(path, "wb") as file:
    file.write(bytes(range(100)))
for options in ({}, {"access": mmap.ACCESS_WRITE}, {"flags": mmap.MAP_PRIVATE}, {"prot": mmap.PROT_READ}, {"access": mmap.ACCESS_READ}, {"access": mmap.ACCESS_COPY}, {"trackfd": False}):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 5, **options) as view:
        print(options, view)
        try:
            view[0] = 200
            view.resize(20)
            view[19] = 201
        except (TypeError, ValueError) as error:
            print(error)
        print(view[:], bytes(memoryview(view)[3:4]))
    print(open(path, "rb").read())
    with open(path, "wb") as file:
        file.write(bytes(range(100)))
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 10) as view:
    for attempt in (
        lambda: view.find(b"x", "y"),
        lambda: view.find("x"),
        lambda: view.rfind(b"\x05", None, None),
        lambda: view.find(b"\x05", 1 << 63),
        lambda: view.seek(1.0),
        lambda: view.seek(0, 5),
        lambda: view.read("x"),
        lambda: view.write("x"),
        lambda: view.write_byte(-1),
        lambda: view.write_byte(256),
        lambda: view.move(0, 1, "x"),
        lambda: view.flush(1, 2),
        lambda: view.flush(0, 11),
        lambda: view.__setitem__(slice(2), "xy"),
        lambda: view.__delitem__(0),
        lambda: list(reversed(view))[:2],
        lambda: view.resize(0),
    ):
        try:
            print(attempt())
        except (OSError, OverflowError, TypeError, ValueError) as error:
            print(type(error).__name__, error)
with open(path, "wb") as file:
    file.write(b"first line\nsecond line\n" + bytes(range(256)) + bytes(7913))
with open(path, "rb") as file, mmap.mmap(file.fileno(), 10, offset=mmap.ALLOCATIONGRANULARITY, access=mmap.ACCESS_READ) as view:
    print(len(view), view[0], view.size())

with mmap.mmap(-1, 13) as view:
    view.write(b"Hello world!")
    view.seek(0)
    print(view.readline(), len(view))
for attempt in (
    lambda: mmap.mmap(-1, 0),
    lambda: mmap.mmap(-1, -1),
    lambda: mmap.mmap(os.open(path, os.O_RDONLY), 10_000, access=mmap.ACCESS_READ),
    lambda: mmap.mmap(os.open(os.path.join(os.path.dirname(path), "empty"), os.O_RDWR | os.O_CREAT), 0),
    lambda: mmap.mmap(999, 1),
    lambda: mmap.mmap(os.open(path, os.O_RDONLY), 0),
):
    try:
        attempt()
        print("a map")
    except (OSError, OverflowError, ValueError) as error:
        print(type(error).__name__)


class Numbered(mmap.mmap):
    def __new__(cls, size):
        return mmap.mmap.__new__(cls, -1, size)


class Two:
    def __index__(self):
        return 2


class Closing(Two):
    def __init__(self, view):
        self.view = view

    def __index__(self):
        self.view.close()
        return 2


with Numbered(8192) as view:
    view[0] = Two()
    view[1:7:2] = b"abc"
    print(type(view).__name__, len(view), view[:8], view[Two()], view[Two() : 6])
    for attempt in (
        lambda: view.__setitem__(0, 300),
        lambda: view.__setitem__(0, 1.5),
        lambda: view.__setitem__(0, 1 << 70),
        lambda: view.__setitem__(1 << 70, 1),
        lambda: view.__setitem__(9000, 1),
        lambda: view.__setitem__("a", 1),
        lambda: view["a"],
        lambda: view[1 << 70],
        lambda: view.resize(16384),
        lambda: (view.resize(4096), len(view)),
        lambda: view.resize(8192),
        lambda: view.madvise(mmap.MADV_SEQUENTIAL),
        lambda: view.madvise(mmap.MADV_NORMAL, 0, Two()),
        lambda: view.madvise(mmap.MADV_NORMAL, 4096),
        lambda: view.madvise(mmap.MADV_NORMAL, 0, -1),
        lambda: view.madvise(mmap.MADV_NORMAL, 5, 2),
        lambda: view.madvise(mmap.MADV_NORMAL, 0, "x"),
        lambda: view.madvise(99),
    ):
        try:
            print(attempt())
        except (IndexError, OSError, TypeError, ValueError) as error:
            print(type(error).__name__, error)
with mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE) as view:
    view.resize(8192)
    print(len(view), mmap.mmap(-1, 4096, trackfd=False)[:2])
for attempt in (
    lambda view: view[Closing(view)],
    lambda view: view[Closing(view) : 9],
    lambda view: view.__setitem__(slice(0, Closing(view)), b"ab"),
    lambda view: view.read(Closing(view)),
    lambda view: view.find(b"x", 0, Closing(view)),
    lambda view: view.write_byte(Closing(view)),
    lambda view: mmap.mmap(-1, 4096, trackfd=False).size(),
):
    try:
        print(attempt(mmap.mmap(-1, 4096)))
    except (OSError, ValueError) as error:
        print(type(error).__name__, error)

# What a map has not changed stays as others have written it.
with open(path, "wb") as file:
    file.write(b"old " * 5_000)
with open(path, "r+b") as file:
    view, other = mmap.mmap(file.fileno(), 0), mmap.mmap(file.fileno(), 0)
    file.seek(view.find(b"old", 8))
    file.write(b"new")
    file.flush()
    view[0:3], view[12:20:4], view[-4:] = b"map", b"mm", b"map\n"
    other[4:7] = b"two"
    exported = memoryview(other)
    exported[9_000:9_003] = b"buf"
    other.flush()
    exported[17_000:17_003] = b"end"
    exported.release()
    view.close()
    other.close()
    text = open(path, "rb").read()
    print(len(text), text[:24], text[8_996:9_008], text[16_996:17_008], text[-8:], text.count(b"old"))
    view = mmap.mmap(file.fileno(), 0)
    view[:3], view[-3:] = b"cut", b"end"
    os.truncate(path, 10)
    view.close()
    print(open(path, "rb").read())
with open(path, "wb") as file:
    file.write(b"first line\n" + bytes(8192))

# Left open, as many scripts do.
kept = mmap.mmap(os.open(path, os.O_RDWR), 0)
kept[:4] = b"last"
