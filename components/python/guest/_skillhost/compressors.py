"""What `_bz2`, `_lzma` and `_zstd` have in common: each is Python over the streams of `_native`, which has the C libraries."""

from _skillhost import _native

CONTINUE, FLUSH, FINISH = range(3)
WANTS_INPUT, ENDED, OUTPUT_FULL = range(3)


class Stream:
    """A compressor or decompressor. `_failure` makes the exception for an error of its library."""

    def _feed(self, data, start, action, most):
        output, used, state = _native.run(self._stream, data, start, action, most)
        if output is None:
            raise self._failure(used, state)
        return output, used, state

    def __reduce__(self):
        kind = type(self)
        raise TypeError(f"cannot pickle '{kind.__module__}.{kind.__qualname__}' object")


class Decompressor(Stream):
    """Keeps the input that the limit on the output has left."""

    # Whether output may be left although all input is consumed, so that the next call needs no input.
    _holds_output = True

    @classmethod
    def _make(cls, stream):
        self = object.__new__(cls)
        self._stream, self._input, self._start = stream, b"", 0
        self.eof, self.needs_input, self.unused_data = False, True, b""
        return self

    def decompress(self, data, max_length=-1):
        if self.eof:
            raise EOFError(self._ended)
        start = self._start
        if start < len(self._input):
            data, start = b"".join((self._input[start:], data)), 0
        else:
            start = 0
        self.needs_input, self._input, self._start = False, b"", 0
        output, used, state = self._feed(data, start, CONTINUE, max_length)
        used += start
        size = len(data) if type(data) is bytes else memoryview(data).nbytes
        if state == ENDED:
            self.eof = True
            self.unused_data = bytes(memoryview(data).cast("B")[used:])
        elif used < size:
            # The caller may change its own buffer.
            self._input, self._start = (data, used) if type(data) is bytes else (bytes(memoryview(data).cast("B")[used:]), 0)
        else:
            self.needs_input = state != OUTPUT_FULL or not self._holds_output
        return output
