"""The module `_lzma`, below the standard library's `lzma`."""

import operator
import struct

from _skillhost import _native
from _skillhost.compressors import CONTINUE, FINISH, Decompressor, Stream

FORMAT_AUTO, FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW = range(4)
CHECK_NONE, CHECK_CRC32, CHECK_CRC64, CHECK_SHA256 = 0, 1, 4, 10
CHECK_ID_MAX, CHECK_UNKNOWN = 15, 16
FILTER_LZMA1, FILTER_LZMA2, FILTER_DELTA = 0x4000000000000001, 0x21, 0x03
FILTER_X86, FILTER_POWERPC, FILTER_IA64, FILTER_ARM, FILTER_ARMTHUMB, FILTER_SPARC = range(4, 10)
MF_HC3, MF_HC4, MF_BT2, MF_BT3, MF_BT4 = 0x03, 0x04, 0x12, 0x13, 0x14
MODE_FAST, MODE_NORMAL = 1, 2
PRESET_DEFAULT, PRESET_EXTREME = 6, 1 << 31
FILTERS_MAX, MEMORY_MAX = 4, (1 << 64) - 1
MEMORY, PROGRAM = 5, 11
TEXTS = {
    3: "Unsupported integrity check", 6: "Memory usage limit exceeded", 7: "Input format not supported by decoder",
    8: "Invalid or unsupported options", 9: "Corrupt input data", 10: "Insufficient buffer space", PROGRAM: "Internal error",
}  # fmt: skip
# The fields of `struct filter` in native.c after the number of the filter.
FIELDS = ("preset", "dict_size", "lc", "lp", "pb", "mode", "nice_len", "mf", "depth", "dist", "start_offset")
OPTIONS = {number: ("start_offset",) for number in range(FILTER_X86, FILTER_SPARC + 1)}
OPTIONS |= {FILTER_LZMA1: FIELDS[:-2], FILTER_LZMA2: FIELDS[:-2], FILTER_DELTA: ("dist",)}


class LZMAError(Exception):
    """Call to liblzma failed."""


LZMAError.__module__ = "_lzma"


def failure(code, text=""):
    return MemoryError() if code == MEMORY else LZMAError(TEXTS.get(code, f"Unrecognized error from liblzma: {code}"))


def checked(result):
    """Raises the error whose number liblzma has returned in place of a result."""
    if type(result) is int:
        raise failure(result)
    return result


def packed(filters):
    """Returns filters as native.c reads them."""
    if hasattr(filters, "keys"):
        raise TypeError(f"{type(filters).__name__} is not a sequence")
    count = len(filters)
    if count > FILTERS_MAX:
        raise ValueError(f"Too many filters - liblzma supports a maximum of {FILTERS_MAX}")
    return b"".join(packed_filter(filters[number]) for number in range(count))


def packed_filter(spec):
    if not hasattr(spec, "keys") or not hasattr(spec, "__getitem__"):
        raise TypeError("Filter specifier must be a dict or dict-like object")
    try:
        number = spec["id"]
    except KeyError:
        raise ValueError('Filter specifier must have an "id" entry') from None
    number = operator.index(number)
    if number not in OPTIONS:
        raise ValueError(f"Invalid filter ID: {number}")
    if not set(spec.keys()) <= {"id", *OPTIONS[number]}:
        kind = "LZMA" if number in (FILTER_LZMA1, FILTER_LZMA2) else "delta" if number == FILTER_DELTA else "BCJ"
        raise ValueError(f"Invalid filter specifier for {kind} filter")
    values = {name: operator.index(spec[name]) for name in spec.keys() if name != "id"}
    if any(not 0 <= value < 1 << 32 for value in values.values()):
        raise OverflowError("Value too large for uint32_t type")
    preset = values.get("preset", PRESET_DEFAULT)
    if preset & 0x1F > 9 or preset & ~(0x1F | PRESET_EXTREME):
        raise LZMAError(f"Invalid compression preset: {preset}")
    return struct.pack("<12q", number, *(values.get(name, -1) for name in FIELDS))


def is_check_supported(check_id, /):
    return bool(_native.lzma_check_supported(check_id))


def _encode_filter_properties(filter, /):
    return checked(_native.lzma_encode_properties(packed_filter(filter)))


def _decode_filter_properties(filter_id, encoded_props, /):
    found = checked(_native.lzma_decode_properties(filter_id, encoded_props))
    names = ("dict_size", "lc", "lp", "pb") if filter_id in (FILTER_LZMA1, FILTER_LZMA2) else OPTIONS[filter_id]
    return {"id": filter_id, **dict(zip(names, found))}


class LZMACompressor(Stream):
    _failure = staticmethod(failure)

    def __init__(self, format=FORMAT_XZ, check=-1, preset=None, filters=None):
        format, check = operator.index(format), operator.index(check)
        if preset is not None and filters is not None:
            raise ValueError("Cannot specify both preset and filter chain")
        preset = PRESET_DEFAULT if preset is None else operator.index(preset)
        if format != FORMAT_XZ and check not in (-1, CHECK_NONE):
            raise ValueError("Integrity checks are only supported by FORMAT_XZ")
        if format not in (FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW):
            raise ValueError(f"Invalid container format: {format}")
        if format == FORMAT_RAW and filters is None:
            raise ValueError("Must specify filters for FORMAT_RAW")
        chain = b"" if filters is None else packed(filters)
        if format == FORMAT_ALONE and filters is not None and (len(filters) != 1 or filters[0]["id"] != FILTER_LZMA1):
            raise ValueError("Invalid filter chain for FORMAT_ALONE - must be a single LZMA1 filter")
        if preset < 0:
            raise ValueError("value must be positive")
        if preset >= 1 << 32:
            raise OverflowError("Value too large for uint32_t type")
        self._stream = checked(_native.lzma_encoder(format, CHECK_CRC64 if check == -1 else check, preset, chain))
        self._flushed = False

    def compress(self, data, /):
        if self._flushed:
            raise ValueError("Compressor has been flushed")
        return self._feed(data, 0, CONTINUE, -1)[0]

    def flush(self):
        if self._flushed:
            raise ValueError("Repeated call to flush()")
        self._flushed = True
        return self._feed(b"", 0, FINISH, -1)[0]


class LZMADecompressor(Decompressor):
    _failure = staticmethod(failure)
    _ended = "Already at end of stream"

    def __new__(cls, format=FORMAT_AUTO, memlimit=None, filters=None):
        format = operator.index(format)
        if memlimit is not None:
            if format == FORMAT_RAW:
                raise ValueError("Cannot specify memory limit with FORMAT_RAW")
            memlimit = operator.index(memlimit)
        if format == FORMAT_RAW and filters is None:
            raise ValueError("Must specify filters for FORMAT_RAW")
        if format != FORMAT_RAW and filters is not None:
            raise ValueError("Cannot specify filters except with FORMAT_RAW")
        if format not in (FORMAT_AUTO, FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW):
            raise ValueError(f"Invalid container format: {format}")
        chain = b"" if filters is None else packed(filters)
        if format == FORMAT_RAW and not chain:
            raise ValueError("Must specify filters for FORMAT_RAW")
        return cls._make(checked(_native.lzma_decoder(format, MEMORY_MAX if memlimit is None else memlimit, chain)))

    @property
    def check(self):
        return _native.lzma_stream_check(self._stream)


# `from _lzma import *` takes these.
__all__ = [name for name in dir() if name.startswith(("FORMAT_", "CHECK_", "FILTER_", "MF_", "MODE_", "PRESET_"))]
__all__ += ["LZMACompressor", "LZMADecompressor", "LZMAError", "is_check_supported"]
