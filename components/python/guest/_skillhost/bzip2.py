"""The module `_bz2`, below the standard library's `bz2`."""

from _skillhost import _native
from _skillhost.compressors import CONTINUE, FINISH, Decompressor, Stream

# bzlib.h's errors.
ERRORS = {
    -1: (RuntimeError, "Internal error - Invalid sequence of commands sent to libbzip2"),
    -2: (ValueError, "Internal error - invalid parameters passed to libbzip2"),
    -3: (MemoryError, ""),
    -4: (OSError, "Invalid data stream"),
    -5: (OSError, "Invalid data stream"),
    -6: (OSError, "Unknown I/O error"),
    -7: (EOFError, "Compressed file ended before the logical end-of-stream was detected"),
}


def failure(code, text):
    kind, text = ERRORS.get(code, (OSError, f"Unrecognized error from libbzip2: {code}"))
    return kind(text) if text else kind()


class BZ2Compressor(Stream):
    _failure = staticmethod(failure)

    def __init__(self, compresslevel=9, /):
        if not 1 <= compresslevel <= 9:
            raise ValueError("compresslevel must be between 1 and 9")
        self._stream, self._flushed = _native.bz2_stream(compresslevel), False

    def compress(self, data, /):
        if self._flushed:
            raise ValueError("Compressor has been flushed")
        return self._feed(data, 0, CONTINUE, -1)[0]

    def flush(self):
        if self._flushed:
            raise ValueError("Repeated call to flush()")
        self._flushed = True
        return self._feed(b"", 0, FINISH, -1)[0]


class BZ2Decompressor(Decompressor):
    _failure = staticmethod(failure)
    _ended = "End of stream already reached"
    _holds_output = False

    def __new__(cls):
        return cls._make(_native.bz2_stream(0))

    def decompress(self, data, max_length=-1):
        if self._stream is None:
            raise ValueError("Decompressor is unusable after a previous error")
        try:
            return super().decompress(data, max_length)
        except OSError:
            # libbzip2 must not be called again.
            self._stream = None
            raise
