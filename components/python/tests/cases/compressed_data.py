import bz2
import hashlib
import io
import lzma
import os
import shutil
import tarfile
import zipfile
from compression import zstd

text = b"".join(b"line %d of a text\n" % number for number in range(20_000))
for module in (bz2, lzma, zstd):
    packed = module.compress(text)
    print(module.__name__, len(packed) < len(text) // 8, module.decompress(packed) == text, module.decompress(module.compress(b"")))
    stream = io.BytesIO()
    with module.open(stream, "wt", encoding="utf-8") as file:
        file.writelines(["grün\n", "blau\n"])
    stream.seek(0)
    with module.open(stream, "rt", encoding="utf-8") as file:
        print(file.read().split())
    with module.open(io.BytesIO(packed)) as file:
        print(file.readline(), file.seek(-17, io.SEEK_END) == len(text) - 17, file.read(), file.seek(5), file.read(4))

# Written by bzip2, xz and zstd.
print(bz2.decompress(bytes.fromhex("425a6839314159265359bc002acd0000009100400000602000212641988638bb9229c28485e0015668")))
print(lzma.decompress(bytes.fromhex("5d00008000ffffffffffffffff00341a400581f6e90b5ffffd744000")))
xz = "fd377a585a000004e6d6b4460200210116000000742fe5a3010004686920686900000000ebe6efd42648ddaa00011d05b82d80af1fb6f37d010000000004595a"
print(lzma.decompress(bytes.fromhex(xz)), bytes.fromhex(xz) == lzma.compress(b"hi hi"))
print(zstd.decompress(bytes.fromhex("28b52ffd240529000068692068694061a553")))

# In pieces, with a limit on the output.
for make, packed in ((bz2.BZ2Decompressor, bz2.compress(text)), (lzma.LZMADecompressor, lzma.compress(text)), (zstd.ZstdDecompressor, zstd.compress(text))):
    one, pieces, rest = make(), [], packed + b"rest"
    while not one.eof:
        piece, rest = (rest[:100], rest[100:]) if one.needs_input else (b"", rest)
        pieces.append(one.decompress(piece, max_length=1000))
    print(make.__name__, b"".join(pieces) == text, max(map(len, pieces)), (one.unused_data + rest)[-4:], one.needs_input)
    try:
        one.decompress(b"more")
    except EOFError as error:
        print(error)
    try:
        make().decompress(b"this is not compressed data")
    except (OSError, lzma.LZMAError, zstd.ZstdError) as error:
        print(type(error).__name__, error)

for options in ({"format": lzma.FORMAT_ALONE}, {"check": lzma.CHECK_SHA256, "preset": 1 | lzma.PRESET_EXTREME}, {"filters": [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}]}):
    one = lzma.LZMADecompressor()
    print(one.decompress(lzma.compress(text, **options)) == text, one.check)
raw = [{"id": lzma.FILTER_LZMA1, "preset": 3}]
print(lzma.decompress(lzma.compress(text, lzma.FORMAT_RAW, filters=raw), lzma.FORMAT_RAW, filters=raw) == text)
for number, attempt in enumerate((
    lambda: lzma.compress(b"", filters=[{"id": 1}]),
    lambda: lzma.compress(b"", lzma.FORMAT_RAW),
    lambda: lzma.LZMADecompressor(memlimit=1000).decompress(lzma.compress(text)),
    lambda: bz2.BZ2Compressor(10),
    lambda: zstd.compress(b"", 100),
    lambda: zstd.decompress(zstd.compress(text)[:-5]),
)):
    try:
        print(number, attempt())
    except Exception as error:
        print(number, type(error).__name__, error)

words = [b"%s=%d;%s" % (name, number, b"x" * (number % 7)) for number in range(400) for name in (b"red", b"green", b"blue")]
trained = zstd.train_dict(words, 4096)
with_dictionary = zstd.compress(words[7], zstd_dict=trained)
print(len(trained.dict_content) <= 4096, zstd.decompress(with_dictionary, zstd_dict=trained), zstd.get_frame_info(with_dictionary).dictionary_id == trained.dict_id)
options = {zstd.CompressionParameter.checksum_flag: 1, zstd.CompressionParameter.compression_level: 19}
print(zstd.decompress(zstd.compress(text, options=options)) == text, zstd.get_frame_info(zstd.compress(text)).decompressed_size == len(text))

os.makedirs("tree/inner")
with open("tree/inner/file", "wb") as file:
    file.write(text)
for kind, suffix in (("bztar", "tar.bz2"), ("xztar", "tar.xz"), ("zstdtar", "tar.zst")):
    name = shutil.make_archive("archive", kind, "tree")
    shutil.unpack_archive(name, f"out-{kind}")
    with tarfile.open(name) as archive:
        print(name.endswith(suffix), sorted(archive.getnames()), open(f"out-{kind}/inner/file", "rb").read() == text)
for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_ZSTANDARD):
    with zipfile.ZipFile("a.zip", "w", method) as archive:
        archive.writestr("text", text)
    with zipfile.ZipFile("a.zip") as archive:
        print(archive.getinfo("text").compress_type, archive.read("text") == text, archive.testzip())

# RFC 7914, section 12.
print(hashlib.scrypt(b"", salt=b"", n=16, r=1, p=1).hex())
print(hashlib.scrypt(b"password", salt=b"NaCl", n=1024, r=8, p=16).hex())
print(hashlib.scrypt(b"pleaseletmein", salt=b"SodiumChloride", n=16384, r=8, p=1, maxmem=1 << 26, dklen=8).hex())
for wrong in ({"n": 3, "r": 1, "p": 1}, {"n": 1 << 20, "r": 8, "p": 1}, {"n": 16, "r": 1, "p": 1, "dklen": 0}):
    try:
        hashlib.scrypt(b"x", salt=b"", **wrong)
    except ValueError as error:
        print(error)
