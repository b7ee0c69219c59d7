"""The module `_zstd`, below the standard library's `compression.zstd`."""

from _skillhost import _native
from _skillhost.compressors import Decompressor, Stream

zstd_version, zstd_version_number = _native.zstd_version, _native.zstd_version_number
ZSTD_CLEVEL_DEFAULT, ZSTD_DStreamOutSize = _native.zstd_default, _native.zstd_output
ZSTD_fast, ZSTD_dfast, ZSTD_greedy, ZSTD_lazy, ZSTD_lazy2, ZSTD_btlazy2, ZSTD_btopt, ZSTD_btultra, ZSTD_btultra2 = range(1, 10)
# zstd.h's parameters.
COMPRESSION = {
    "compressionLevel": 100, "windowLog": 101, "hashLog": 102, "chainLog": 103, "searchLog": 104, "minMatch": 105, "targetLength": 106,
    "strategy": 107, "enableLongDistanceMatching": 160, "ldmHashLog": 161, "ldmMinMatch": 162, "ldmBucketSizeLog": 163,
    "ldmHashRateLog": 164, "contentSizeFlag": 200, "checksumFlag": 201, "dictIDFlag": 202, "nbWorkers": 400, "jobSize": 401,
    "overlapLog": 402,
}  # fmt: skip
globals().update((f"ZSTD_c_{name}", number) for name, number in COMPRESSION.items())
ZSTD_d_windowLogMax = 100
NAMES = {
    True: {
        100: "compression_level", 101: "window_log", 102: "hash_log", 103: "chain_log", 104: "search_log", 105: "min_match",
        106: "target_length", 107: "strategy", 160: "enable_long_distance_matching", 161: "ldm_hash_log", 162: "ldm_min_match",
        163: "ldm_bucket_size_log", 164: "ldm_hash_rate_log", 200: "content_size_flag", 201: "checksum_flag", 202: "dict_id_flag",
        400: "nb_workers", 401: "job_size", 402: "overlap_log",
    },
    False: {100: "window_log_max"},
}  # fmt: skip
DIGESTED, UNDIGESTED, PREFIX = range(3)
# A size that is not known, and the smallest number that is no size.
UNKNOWN, NO_SIZE = (1 << 64) - 1, (1 << 64) - 2
# The enumerations of the Python module: an option of one kind is refused as one of the other.
KINDS = {}


class ZstdError(Exception):
    """An error occurred in the zstd library."""


ZstdError.__module__ = "compression.zstd"


def set_parameter_types(c_parameter_type, d_parameter_type):
    if not isinstance(c_parameter_type, type) or not isinstance(d_parameter_type, type):
        raise ValueError("The two arguments should be CompressionParameter and DecompressionParameter types.")
    KINDS[True], KINDS[False] = c_parameter_type, d_parameter_type


def get_param_bounds(parameter, is_compress):
    bounds = _native.zstd_bounds(parameter, bool(is_compress))
    if isinstance(bounds, str):
        raise ZstdError(f"Unable to get zstd {'' if is_compress else 'de'}compression parameter bounds: {bounds}")
    return bounds


def get_frame_size(frame_buffer):
    size, _, _ = _native.zstd_frame(frame_buffer)
    if isinstance(size, str):
        raise ZstdError(
            "Error when finding the compressed size of a Zstandard frame. Ensure the frame_buffer argument starts from the beginning of a "
            f"frame, and its length is not less than this complete frame. Zstd error message: {size}."
        )
    return size


def get_frame_info(frame_buffer):
    _, size, dictionary = _native.zstd_frame(frame_buffer)
    if size == -2:
        raise ZstdError(
            "Error when getting information from the header of a Zstandard frame. Ensure the frame_buffer argument starts from the "
            "beginning of a frame, and its length is not less than the frame header (6~18 bytes)."
        )
    return (None if size == -1 else size), dictionary


def train_dict(samples_bytes, samples_sizes, dict_size, /):
    return trained(None, samples_bytes, samples_sizes, dict_size, 0, "train the Zstandard dictionary")


def finalize_dict(custom_dict_bytes, samples_bytes, samples_sizes, dict_size, compression_level, /):
    if not isinstance(custom_dict_bytes, bytes):
        raise TypeError(f"finalize_dict() argument 1 must be bytes, not {type(custom_dict_bytes).__name__}")
    what = "finalize the Zstandard dictionary"
    return trained(custom_dict_bytes, samples_bytes, samples_sizes, dict_size, compression_level, what)


def trained(basis, samples, sizes, size, level, what):
    if not isinstance(samples, bytes) or not isinstance(sizes, tuple):
        raise TypeError("the samples must be bytes, and their sizes a tuple")
    if not isinstance(size, int) or not isinstance(level, int):
        raise TypeError("'float' object cannot be interpreted as an integer")
    if not -(1 << 31) <= size < 1 << 31 or not -(1 << 31) <= level < 1 << 31:
        raise OverflowError("Python int too large to convert to C int")
    if size <= 0:
        raise ValueError("dict_size argument should be positive number.")
    if not all(isinstance(one, int) for one in sizes):
        raise TypeError("'float' object cannot be interpreted as an integer")
    if not all(0 <= one < 1 << 32 for one in sizes):
        raise ValueError(f"Items in samples_sizes should be an int object, with a value between 0 and {(1 << 32) - 1}")
    if sum(sizes) != len(samples):
        raise ValueError("The samples size tuple doesn't match the concatenation's size.")
    content = _native.zstd_train(basis, samples, b"".join(one.to_bytes(4, "little") for one in sizes), size, level)
    if isinstance(content, str):
        raise ZstdError(f"Unable to {what}: {content}")
    return content


class ZstdDict:
    """A Zstandard dictionary."""

    def __init__(self, dict_content, /, *, is_raw=False):
        content = bytes(memoryview(dict_content))
        if len(content) < 8:
            raise ValueError("Zstandard dictionary content too short (must have at least eight bytes)")
        self._content, self._id = content, _native.zstd_dictionary_id(content)
        if not is_raw and not self._id:
            raise ValueError("invalid Zstandard dictionary")

    dict_content = property(lambda self: self._content)
    dict_id = property(lambda self: self._id)
    as_digested_dict = property(lambda self: (self, DIGESTED))
    as_undigested_dict = property(lambda self: (self, UNDIGESTED))
    as_prefix = property(lambda self: (self, PREFIX))

    def __len__(self):
        return len(self._content)

    def __repr__(self):
        return f"<ZstdDict dict_id={self._id} dict_size={len(self._content)}>"

    def __reduce__(self):
        raise TypeError("cannot pickle 'compression.zstd.ZstdDict' object")


ZstdDict.__module__ = "compression.zstd"


def load(stream, given, compresses, level):
    """Gives a stream a dictionary: a ZstdDict, or the value of one of its `as_` attributes."""
    how = UNDIGESTED if compresses else DIGESTED
    if type(given) is tuple and len(given) == 2 and isinstance(given[0], ZstdDict) and isinstance(given[1], int):
        given, how = given
        if not -(1 << 31) <= how < 1 << 31:
            raise OverflowError("Python int too large to convert to C int")
        if how not in (DIGESTED, UNDIGESTED, PREFIX):
            raise TypeError("zstd_dict argument should be a ZstdDict object.")
    elif not isinstance(given, ZstdDict):
        raise TypeError("zstd_dict argument should be a ZstdDict object.")
    why = _native.zstd_dictionary(stream, given.dict_content, how, level)
    if why and how == DIGESTED:
        kind = "ZSTD_CDict" if compresses else "ZSTD_DDict"
        raise ZstdError(f"Failed to create a {kind} instance from Zstandard dictionary content.")
    if why:
        raise ZstdError(f"Unable to load Zstandard dictionary or prefix for {'' if compresses else 'de'}compression: {why}")
    # A prefix is used where it is.
    return given


def set_options(stream, options, compresses):
    """Sets parameters and returns the compression level among them."""
    if not isinstance(options, dict):
        raise TypeError(f"{'Zstd' if compresses else 'ZstdDe'}compressor() argument 'options' must be dict, not {type(options).__name__}")
    kind, level = "compression" if compresses else "decompression", ZSTD_CLEVEL_DEFAULT
    for key, value in options.items():
        if type(key) is KINDS[not compresses]:
            other = "DecompressionParameter" if compresses else "CompressionParameter"
            raise TypeError(f"{kind} options dictionary key must not be a {other} attribute")
        for name, number in (("key", key), ("value", value)):
            if not isinstance(number, int):
                raise TypeError(f"{kind} options dictionary {name} must be an int, not {type(number).__name__}")
            if not -(1 << 31) <= number < 1 << 31:
                raise OverflowError(f"dictionary {name} does not fit a C int")
        if compresses and key == COMPRESSION["compressionLevel"]:
            level = value
            check_level(value)
        why = _native.zstd_set(stream, key, value)
        if why:
            name = NAMES[compresses].get(key, f"unknown parameter (key {key})")
            bounds = _native.zstd_bounds(key, compresses)
            if isinstance(bounds, str):
                raise ValueError(f"invalid {kind} parameter '{name}'")
            lowest, highest = bounds
            raise ValueError(f"{kind} parameter '{name}' received an illegal value {value}; the valid range is [{lowest}, {highest}]")
    return level


def check_level(level):
    lowest, highest = get_param_bounds(COMPRESSION["compressionLevel"], True)
    if not -(1 << 31) <= level < 1 << 31:
        raise ValueError(f"illegal compression level; the valid range is [{lowest}, {highest}]")
    if not lowest <= level <= highest:
        raise ValueError(f"illegal compression level {level}; the valid range is [{lowest}, {highest}]")


class ZstdCompressor(Stream):
    CONTINUE, FLUSH_BLOCK, FLUSH_FRAME = range(3)

    def __init__(self, level=None, options=None, zstd_dict=None):
        if level is not None and options is not None:
            raise TypeError("Only one of level or options should be used.")
        self._stream, self._dictionary, self._last = _native.zstd_stream(1), None, self.FLUSH_FRAME
        if level is not None:
            if not isinstance(level, int):
                raise TypeError(f"'{type(level).__name__}' object cannot be interpreted as an integer")
            check_level(level)
            _native.zstd_set(self._stream, COMPRESSION["compressionLevel"], level)
        if options is not None:
            level = set_options(self._stream, options, True)
        if zstd_dict is not None:
            self._dictionary = load(self._stream, zstd_dict, True, ZSTD_CLEVEL_DEFAULT if level is None else level)

    last_mode = property(lambda self: self._last)

    @staticmethod
    def _failure(code, text):
        return ZstdError(f"Unable to compress Zstandard data: {text}")

    def _do(self, data, mode):
        try:
            output, _, _ = self._feed(data, 0, mode, -1)
        except BaseException:
            # The frame cannot be continued.
            self._last = self.FLUSH_FRAME
            _native.zstd_reset(self._stream)
            raise
        self._last = mode
        return output

    def compress(self, data, mode=CONTINUE):
        if mode not in (self.CONTINUE, self.FLUSH_BLOCK, self.FLUSH_FRAME):
            raise ValueError(
                "mode argument should be one of these three values: ZstdCompressor.CONTINUE, ZstdCompressor.FLUSH_BLOCK, "
                "ZstdCompressor.FLUSH_FRAME"
            )
        return self._do(data, mode)

    def flush(self, mode=FLUSH_FRAME):
        if mode not in (self.FLUSH_FRAME, self.FLUSH_BLOCK):
            raise ValueError("mode argument should be ZstdCompressor.FLUSH_FRAME or ZstdCompressor.FLUSH_BLOCK")
        return self._do(b"", mode)

    def set_pledged_input_size(self, size, /):
        if size is not None and not isinstance(size, int):
            raise TypeError(f"size argument should be an int or None, not {type(size).__name__}")
        if size is not None and not 0 <= size < NO_SIZE:
            raise ValueError(f"size argument should be a positive int less than {NO_SIZE}")
        if self._last != self.FLUSH_FRAME:
            raise ValueError("set_pledged_input_size() method must be called when last_mode == FLUSH_FRAME")
        why = _native.zstd_pledge(self._stream, UNKNOWN if size is None else size)
        if why:
            raise ZstdError(f"Unable to set pledged uncompressed content size: {why}")


class ZstdDecompressor(Decompressor):
    _ended = "Already at the end of a Zstandard frame."

    def __new__(cls, zstd_dict=None, options=None):
        self = cls._make(_native.zstd_stream(0))
        self._dictionary = None
        if options is not None:
            set_options(self._stream, options, False)
        if zstd_dict is not None:
            self._dictionary = load(self._stream, zstd_dict, False, 0)
        return self

    @staticmethod
    def _failure(code, text):
        return ZstdError(f"Unable to decompress Zstandard data: {text}")


for kind in (ZstdCompressor, ZstdDecompressor):
    kind.__module__ = "compression.zstd"
