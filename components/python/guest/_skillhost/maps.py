"""The module `mmap`: a map is a copy of the file's content in memory. Changes of a shared map are written to the file by `flush`, when the map
is closed or deleted, and at the end of the program. Until then, other maps and programs read the file's old content. What the map has not changed
is not written: others may have changed it since.
"""

import atexit
import contextlib
import errno
import operator
import os
import stat
import weakref

from _skillhost import modes as _modes

error = OSError
ACCESS_DEFAULT, ACCESS_READ, ACCESS_WRITE, ACCESS_COPY = range(4)
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_SHARED, MAP_PRIVATE, MAP_DENYWRITE, MAP_EXECUTABLE, MAP_ANON, MAP_POPULATE, MAP_STACK, MAP_NORESERVE = 1, 2, 2048, 4096, 32, 32768, 131072, 16384
MAP_ANONYMOUS = MAP_ANON
MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE = _ADVICE = 0, 1, 2, 3, 4, 8
PAGESIZE = ALLOCATIONGRANULARITY = 4096
SIZE_MAX = (1 << 31) - 1
_OPEN = weakref.WeakSet()
# Maps every byte except 0 to 255.
_ALL_BITS = bytes([0] + [255] * 255)
_NAMES = {ACCESS_DEFAULT: "ACCESS_DEFAULT", ACCESS_READ: "ACCESS_READ", ACCESS_WRITE: "ACCESS_WRITE", ACCESS_COPY: "ACCESS_COPY"}


class mmap:
    _data = None

    def __new__(cls, fileno, length, flags=MAP_SHARED, prot=PROT_WRITE | PROT_READ, access=ACCESS_DEFAULT, offset=0, *, trackfd=True):
        fileno, length, offset = operator.index(fileno), operator.index(length), operator.index(offset)
        for number, name in ((length, "length"), (offset, "offset")):
            if number < 0:
                raise OverflowError(f"memory mapped {name} must be positive")
            if number > SIZE_MAX:
                raise OverflowError("Python int too large to convert to C ssize_t")
        if access != ACCESS_DEFAULT and (flags != MAP_SHARED or prot != PROT_WRITE | PROT_READ):
            raise ValueError("mmap can't specify both access and flags, prot.")
        if access not in (ACCESS_DEFAULT, ACCESS_READ, ACCESS_WRITE, ACCESS_COPY):
            raise ValueError("mmap invalid access parameter.")
        if access == ACCESS_DEFAULT and prot & (PROT_READ | PROT_WRITE) != PROT_READ | PROT_WRITE:
            access = ACCESS_WRITE if prot & PROT_WRITE else ACCESS_READ
        self = object.__new__(cls)
        self._access, self._trackfd, self._writable = access, trackfd, access != ACCESS_READ
        self._file, self._path, self._identity, self._offset, self._exports, self._position = fileno, None, None, offset, 0, 0
        shared = access in (ACCESS_DEFAULT, ACCESS_WRITE) and not flags & MAP_PRIVATE
        self._saves = fileno != -1 and self._writable and shared
        self._private = bool(flags & MAP_PRIVATE)
        # What pages contained before the changes that the file does not have yet.
        self._before = {}
        if fileno == -1 or flags & MAP_ANON:
            if not length:
                raise ValueError("cannot mmap an empty file") if fileno != -1 else _invalid()
            if offset % ALLOCATIONGRANULARITY:
                raise _invalid()
            self._file, self._saves, self._data = -1, False, bytearray(length)
        else:
            self._data = self._copied(length)
        if not _OPEN:
            atexit.unregister(_save_all)
            atexit.register(_save_all)
        _OPEN.add(self)
        return self

    def _copied(self, length):
        """Returns the content of the file."""
        found = os.fstat(self._file)
        if stat.S_ISREG(found.st_mode):
            if not length:
                if not found.st_size:
                    raise ValueError("cannot mmap an empty file")
                if self._offset >= found.st_size:
                    raise ValueError("mmap offset is greater than file size")
                length = found.st_size - self._offset
            elif self._offset > found.st_size or found.st_size - self._offset < length:
                raise ValueError("mmap length is greater than file size")
        elif stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        if self._offset % ALLOCATIONGRANULARITY:
            raise _invalid()
        self._identity = _identity(found)
        if self._saves:
            self._path = _modes.path_of(self._file, found)
            try:
                os.pwrite(self._file, b"", self._offset)
            except OSError:
                # Opened only for reading.
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        data = bytearray(length)
        _read(self._file, data, 0, self._offset)
        return data

    def _open(self):
        if self._data is None:
            raise ValueError("mmap closed or invalid")
        return self._data

    def _changing(self):
        data = self._open()
        if not self._writable:
            raise TypeError("mmap can't modify a readonly memory map.")
        return data

    def _will_change(self, start, end):
        """Keeps the content of the pages that contain these bytes, unless it is kept already."""
        if not self._saves:
            return
        for page in range(start // PAGESIZE, -(-end // PAGESIZE)):
            if page not in self._before:
                self._before[page] = bytes(self._data[page * PAGESIZE : (page + 1) * PAGESIZE])

    def _save(self, offset, size):
        """Writes the changes of the pages that contain these bytes."""
        first, end = offset // PAGESIZE, -(-(offset + size) // PAGESIZE)
        pages = sorted(page for page in self._before if first <= page < end)
        if not pages:
            return
        with self._opened() as number:
            for begin, count in _runs(pages):
                run = range(begin, begin + count)
                old, new = b"".join(map(self._before.get, run)), bytes(self._data[begin * PAGESIZE : (begin + count) * PAGESIZE])
                _write_changes(number, self._offset + begin * PAGESIZE, old, new)
                for page in run:
                    del self._before[page]
        if self._exports:
            # A holder of the buffer may change it again.
            self._will_change(pages[0] * PAGESIZE, min((pages[-1] + 1) * PAGESIZE, len(self._data)))

    @contextlib.contextmanager
    def _opened(self):
        """Yields a descriptor of the file. Natively, a map has one of its own; here the program may have closed its file, and the number
        may be that of another one by now.
        """
        if self._is_file(self._file):
            yield self._file
            return
        if self._path is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        number = os.open(self._path, os.O_RDWR)
        try:
            if not self._is_file(number):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
            yield number
        finally:
            os.close(number)

    def _is_file(self, number):
        try:
            return _identity(os.fstat(number)) == self._identity
        except OSError:
            return False

    def flush(self, offset=0, size=None, /, *, flags=0):
        length, offset = len(self._open()), _size(offset)
        size = length - offset if size is None else _size(size)
        if offset < 0 or size < 0 or offset > length or length - offset < size:
            raise ValueError("flush values out of range")
        if offset % PAGESIZE:
            raise _invalid()
        self._save(offset, size)

    def close(self):
        if self._data is None:
            return
        if self._exports:
            raise BufferError("cannot close exported pointers exist")
        _OPEN.discard(self)
        try:
            self._save(0, len(self._data))
        finally:
            self._data = None

    closed = property(lambda self: self._data is None)

    def __del__(self):
        if self._data is not None and not self._exports:
            self.close()

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, *error):
        self.close()

    def __len__(self):
        return len(self._open())

    def __iter__(self):
        # Bytes objects, although an index gives a number: as natively.
        position = 0
        while position < len(self):
            yield self[position : position + 1]
            position += 1

    def __getitem__(self, key):
        self._open()
        key = _key(key, "mmap indices must be integers")
        data = self._open()
        if isinstance(key, slice):
            return bytes(data[key])
        try:
            return data[key]
        except IndexError:
            raise IndexError("mmap index out of range") from None

    def __reversed__(self):
        return (self[at : at + 1] for at in range(len(self) - 1, -1, -1))

    def __setitem__(self, key, value):
        self._changing()
        key = _key(key, "mmap indices must be integer")
        if isinstance(key, slice):
            with _view(value) as given, memoryview(self._open()) as view:
                if len(view[key]) != given.nbytes:
                    raise IndexError("mmap slice assignment is wrong size")
                if changed := range(*key.indices(len(view))):
                    self._will_change(min(changed[0], changed[-1]), max(changed[0], changed[-1]) + 1)
                view[key] = given.cast("B")
            return
        value = _index(value, TypeError, "mmap item value must be an int")
        if not 0 <= value <= 255:
            raise ValueError("mmap item value must be in range(0, 256)")
        data = self._open()
        if not -len(data) <= key < len(data):
            raise IndexError("mmap index out of range")
        at = key % len(data)
        self._will_change(at, at + 1)
        data[at] = value

    def __delitem__(self, key):
        self._changing()
        raise TypeError("mmap object doesn't support slice deletion" if isinstance(key, slice) else "mmap doesn't support item deletion")

    def __buffer__(self, flags):
        view = memoryview(self._open())
        self._will_change(0, len(view))
        self._exports += 1
        return view if self._writable else view.toreadonly()

    def __release_buffer__(self, view):
        self._exports -= 1
        view.release()

    def __repr__(self):
        if self._data is None:
            return "<mmap.mmap closed=True>"
        place = f"length={len(self._data)}, pos={self._position}, offset={self._offset}"
        return f"<mmap.mmap closed=False, access={_NAMES[self._access]}, {place}>"

    def __reduce__(self):
        raise TypeError("cannot pickle 'mmap.mmap' object")

    def size(self):
        """Returns the size of the file, which may be larger than the map."""
        data = self._open()
        if not self._trackfd:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._file == -1:
            return len(data)
        with self._opened() as number:
            return os.fstat(number).st_size

    def tell(self):
        self._open()
        return self._position

    def seek(self, pos, whence=0, /):
        self._open()
        pos, whence = _size(pos), operator.index(whence)
        start = {0: 0, 1: self._position, 2: len(self._open())}.get(whence)
        if start is None:
            raise ValueError("unknown seek type")
        if not 0 <= start + pos <= len(self._data):
            raise ValueError("seek out of range")
        self._position = start + pos
        return self._position

    def seekable(self):
        return True

    def read(self, n=None, /):
        self._open()
        if n is not None:
            try:
                n = _size(n)
            except TypeError:
                raise TypeError(f"argument should be integer or None, not '{type(n).__name__}'") from None
        data = self._open()
        left = max(len(data) - self._position, 0)
        size = left if n is None or n < 0 or n > left else n
        self._position += size
        return bytes(data[self._position - size : self._position])

    def read_byte(self):
        data = self._open()
        if self._position >= len(data):
            raise ValueError("read byte out of range")
        self._position += 1
        return data[self._position - 1]

    def readline(self):
        data = self._open()
        end = data.find(b"\n", self._position)
        return self.read((len(data) if end < 0 else end + 1) - self._position)

    def write(self, bytes, /):
        self._open()
        with _view(bytes) as given:
            data, size = self._changing(), given.nbytes
            if self._position > len(data) or len(data) - self._position < size:
                raise ValueError("data out of range")
            self._will_change(self._position, self._position + size)
            with memoryview(data) as view:
                view[self._position : self._position + size] = given.cast("B")
        self._position += size
        return size

    def write_byte(self, byte, /):
        self._open()
        byte = operator.index(byte)
        if not 0 <= byte <= 255:
            raise OverflowError(f"unsigned byte integer is {'less than minimum' if byte < 0 else 'greater than maximum'}")
        if self._position >= len(self._changing()):
            raise ValueError("write byte out of range")
        self[self._position] = byte
        self._position += 1

    def find(self, view, start=None, end=None, /):
        return self._found("find", view, start, end)

    def rfind(self, view, start=None, end=None, /):
        return self._found("rfind", view, start, end)

    def _found(self, method, view, start, end):
        self._open()
        with _view(view) as given:
            start = self._position if start is None else _size(start)
            end = None if end is None else _size(end)
            data = self._open()
            return getattr(data, method)(given, min(start, len(data)), len(data) if end is None else end)

    def move(self, dest, src, count, /):
        self._open()
        dest, src, count = _size(dest), _size(src), _size(count)
        data = self._changing()
        if dest < 0 or src < 0 or count < 0 or len(data) - dest < count or len(data) - src < count:
            raise ValueError("source, destination, or count out of range")
        self._will_change(dest, dest + count)
        with memoryview(data) as view:
            view[dest : dest + count] = bytes(view[src : src + count])

    def resize(self, newsize, /):
        self._open()
        newsize = _size(newsize)
        if self._exports:
            raise BufferError("mmap can't resize with extant pointers exported.")
        if not self._trackfd:
            raise ValueError("mmap can't resize with trackfd=False.")
        if self._access not in (ACCESS_DEFAULT, ACCESS_WRITE):
            raise TypeError("mmap can't resize a readonly or copy-on-write memory map.")
        if newsize < 0 or self._offset + newsize > SIZE_MAX:
            raise ValueError("new size out of range")
        length = len(self._data)
        if self._file == -1 and not self._private and newsize > length:
            raise ValueError("mmap: can't expand a shared anonymous mapping")
        if not newsize:
            raise _invalid()
        if self._file != -1:
            self._save(0, min(newsize, len(self._data)))
            with self._opened() as number:
                os.ftruncate(number, self._offset + newsize)
                if newsize > length:
                    # What the file has after the end of the map belongs to the larger map.
                    self._data.extend(bytes(newsize - length))
                    _read(number, self._data, length, self._offset)
        elif newsize > length:
            self._data.extend(bytes(newsize - length))
        del self._data[newsize:]
        self._before.clear()

    def madvise(self, option, start=0, length=None, /):
        self._open()
        option, start = operator.index(option), _size(start)
        length = len(self) if length is None else _size(length)
        if start < 0 or start >= len(self):
            raise ValueError("madvise start out of bounds")
        if length < 0:
            raise ValueError("madvise length invalid")
        if SIZE_MAX - start < length:
            raise OverflowError("madvise length too large")
        if start % PAGESIZE or option not in _ADVICE:
            raise _invalid()


mmap.__module__ = "mmap"


def _key(key, text):
    return slice(*map(_bound, (key.start, key.stop, key.step))) if isinstance(key, slice) else _index(key, IndexError, text)


def _bound(value):
    return None if value is None else operator.index(value)


def _index(value, kind, text):
    try:
        number = operator.index(value)
    except TypeError:
        # Raised by the object's own method, if it has one.
        if hasattr(type(value), "__index__"):
            raise
        raise TypeError(text) from None
    if not -(1 << 63) <= number < 1 << 63:
        raise kind(f"cannot fit '{type(value).__name__}' into an index-sized integer")
    return number


def _size(value):
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("Python int too large to convert to C ssize_t")
    return number


def _view(value):
    try:
        return memoryview(value)
    except TypeError:
        raise TypeError(f"a bytes-like object is required, not '{type(value).__name__}'") from None


def _invalid():
    return OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def _read(number, data, at, offset):
    """Reads the file's bytes from `offset + at` on into the data from `at` on, without changing the position of the program's own file. Returns
    the end of what there was.
    """
    with memoryview(data) as view:
        while at < len(view):
            piece = os.pread(number, min(len(view) - at, 1 << 20), offset + at)
            if not piece:
                break
            view[at : at + len(piece)] = piece
            at += len(piece)
    return at


def _runs(pages):
    """Yields the first and the number of pages that follow one another, at most 1 MiB at once."""
    begin, count = pages[0], 0
    for page in pages:
        if page != begin + count or count == 256:
            yield begin, count
            begin, count = page, 0
        count += 1
    yield begin, count


def _write_changes(number, offset, old, new):
    """Writes the bytes in which two texts of the same length differ, and keeps what the file has between them. Does not make a file longer that
    has been cut meanwhile.
    """
    differing = int.from_bytes(old, "little") ^ int.from_bytes(new, "little")
    if not differing:
        return
    start, end = ((differing & -differing).bit_length() - 1) // 8, -(-differing.bit_length() // 8)
    there = bytearray(end - start)
    length = _read(number, there, 0, offset + start)
    mask = int.from_bytes(differing.to_bytes(len(new), "little")[start : start + length].translate(_ALL_BITS), "little")
    kept, changed = int.from_bytes(there[:length], "little"), int.from_bytes(new[start : start + length], "little")
    piece, written = (kept ^ (kept ^ changed) & mask).to_bytes(length, "little"), 0
    while written < length:
        written += os.pwrite(number, piece[written:], offset + start + written)


def _identity(found):
    return found.st_dev, found.st_ino


def _save_all():
    for one in list(_OPEN):
        try:
            one._save(0, len(one))
        except OSError:
            # The interpreter also ignores the errors of files that it flushes at its end.
            pass
