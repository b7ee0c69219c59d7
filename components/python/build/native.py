"""Compiles the C libraries below `bz2`, `lzma`, `compression.zstd`, `hashlib.scrypt` and `sqlite3` to one extension module, which
componentize-py links to CPython.

The sources are those of published crates, which cargo downloads and verifies (`native/upstream`). The compiler is the one of the JavaScript
runtime, which `cargo xtask python` fetches.
"""

import json
import os
import pathlib
import shutil

NATIVE = pathlib.Path(__file__).resolve().parent.parent / "native"
# The name by which CPython finds it.
MODULE = "_native.cpython-314-wasm32-wasi.so"
COMMON = """-target wasm32-wasi -Wno-deprecated -Wno-unused-command-line-argument -fPIC -O2 -DNDEBUG -fvisibility=hidden""".split()
BZIP2 = "blocksort bzlib compress crctable decompress huffman randtable".split()
# Programs that made the tables, variants, and what needs threads.
LZMA_LEFT_OUT = ("crc32_small.c", "crc64_small.c", "crc_clmul_consts_gen.c", "tablegen.c", "mt.c")
LZMA = "common lzma lz check delta rangecoder simple".split()
ZSTD = "common compress decompress dictBuilder".split()
HIDDEN = [f"-D{library}LIB_VISIBLE=" for library in ("ZSTD", "ZDICT", "ZSTDERROR")]
# The functions of SQLite that CPython calls. Its `_sqlite3` is linked to a SQLite without full-text search, which exports nothing. So this one
# exports them under other names, and the image tool replaces the functions of the first by those of the second (`tools/image/src/sqlite.rs`).
SQLITE_FUNCTIONS = (NATIVE / "sqlite.txt").read_text().split()
SQLITE_PREFIX = "skillhost_"
# WASI has no threads and no shared libraries. Of the rest, what scripts use is that of Debian's build.
SQLITE = """-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_OMIT_SHARED_CACHE -DSQLITE_ENABLE_DBSTAT_VTAB
-DSQLITE_ENABLE_FTS3_PARENTHESIS -DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_ENABLE_PERCENTILE
-DSQLITE_ENABLE_RTREE -DSQLITE_MAX_VARIABLE_NUMBER=250000 -DSQLITE_SOUNDEX -DHAVE_GMTIME_R -DHAVE_ISNAN -DHAVE_LOCALTIME_R
-DHAVE_USLEEP""".split()


def build(folder, zig, run, output):
    """Writes `folder/MODULE`. `zig` is the compiler's command, `run` runs a command, and `output` returns what it prints."""
    manifest = NATIVE / "upstream/Cargo.toml"
    cargo = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked", f"--manifest-path={manifest}"]
    crates = {one["name"]: pathlib.Path(one["manifest_path"]).parent for one in json.loads(output(*cargo))["packages"]}
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(folder / "cache"), "ZIG_LOCAL_CACHE_DIR": str(folder / "cache")}
    objects = []
    for source, options in sources(crates):
        objects.append(folder / f"{len(objects)}-{source.stem}.o")
        run(*zig, "cc", *COMMON, *options, "-c", "-o", objects[-1], source, env=environment)
    link = ["-shared", "--experimental-pic", "--no-entry", "--import-memory", "--unresolved-symbols=import-dynamic", "--strip-debug", "--gc-sections"]
    link += [f"--export={SQLITE_PREFIX}{name}" for name in SQLITE_FUNCTIONS]
    run(*zig, "wasm-ld", *link, "-o", folder / MODULE, *objects, env=environment)
    for path in objects:
        path.unlink()
    shutil.rmtree(folder / "cache")


def sources(crates):
    """Yields each source file and its options."""
    bzip2, xz, zstd = crates["bzip2-sys"] / "bzip2-1.0.8", crates["liblzma-sys"] / "xz/src", crates["zstd-sys"] / "zstd/lib"
    for name in BZIP2:
        yield bzip2 / f"{name}.c", ["-DBZ_NO_STDIO"]
    includes = [f"-I{xz}/liblzma/{name}" for name in ("api", *LZMA)] + [f"-I{xz}/common", f"-I{crates['liblzma-sys']}"]
    for name in LZMA:
        for path in sorted((xz / "liblzma" / name).glob("*.c")):
            if not path.name.endswith(LZMA_LEFT_OUT):
                yield path, ["-std=c99", "-DHAVE_CONFIG_H=1", *includes]
    for name in ("cpucores", "physmem"):
        yield xz / f"common/tuklib_{name}.c", ["-std=c99", "-DHAVE_CONFIG_H=1", *includes]
    for name in ZSTD:
        for path in sorted((zstd / name).glob("*.c")):
            yield path, ["-DZSTD_DISABLE_ASM=1", "-DZSTD_LEGACY_SUPPORT=0", "-DDYNAMIC_BMI2=0", *HIDDEN]
    sqlite = crates["libsqlite3-sys"] / "sqlite3"
    yield sqlite / "sqlite3.c", [*SQLITE, *(f"-D{name}={SQLITE_PREFIX}{name}" for name in SQLITE_FUNCTIONS)]
    api = [f"-I{bzip2}", f"-I{xz}/liblzma/api", f"-I{zstd}", f"-I{sqlite}"]
    yield NATIVE / "native.c", ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", *api]
