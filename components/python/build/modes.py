"""Permissions and owners that files have not, put where libc leaves zeros.

WASI has no permission bits and no users: what may be read shows when it is opened. Scripts print modes, compare owners and ask whether something is
executable, and so each file has those that it would have on Linux, of the one user that there is (uid and gid 1000, as in system.py). CPython makes
every `os.stat_result` in one function, from libc's structure; this is done as it begins.
"""

import wasm
from calls import read_bodies, read_imports
from order import function_names

IMPORT, CODE = 2, 10
# Instructions.
IF, END, SELECT, GET, LOAD, STORE, CONST, IS_ZERO, EQUAL, ADD, AND, OR = 0x04, 0x0B, 0x1B, 0x20, 0x28, 0x36, 0x41, 0x45, 0x46, 0x6A, 0x71, 0x72
NOTHING = 0x40

FUNCTION = "_pystat_fromstructstat"
# Its parameters are the module and the structure, whose fields these are (wasi-libc's __struct_stat.h).
STRUCTURE, MODE, UID, GID = 1, 24, 28, 32
# POSIX's sys/stat.h: S_IFMT, and of it S_IFDIR, S_IFREG, S_IFLNK, S_IFCHR.
KINDS = 0o170000
MODES = {0o040000: 0o755, 0o100000: 0o644, 0o120000: 0o777, 0o020000: 0o620}
OTHERS = 0o600
USER = 1000


def with_modes(module):
    parts = dict(wasm.sections(module))
    (index,) = (index for index, name in function_names(module).items() if name == FUNCTION)
    bodies, at = read_bodies(parts[CODE]), index - len(read_imports(parts[IMPORT]))
    for offset in (MODE, UID, GID):
        read = get() + number(offset) + bytes([ADD, LOAD]) + place(0)
        assert read in bodies[at], f"{FUNCTION} does not read the structure's field at {offset}"
    reader = wasm.Reader(bodies[at])
    for _ in range(reader.unsigned()):
        reader.skip_numbers(2)
    bodies[at] = bodies[at][: reader.at] + filled() + bodies[at][reader.at :]
    code = wasm.vector(wasm.unsigned(len(body)) + body for body in bodies)
    return wasm.join(wasm.CORE, [(kind, code if kind == CODE else content) for kind, content in wasm.sections(module)])


def filled():
    """Where no permission is set, sets those of the kind of file, and the owner."""
    mode = number(OTHERS)
    for kind, bits in MODES.items():
        mode = number(bits) + mode + field(MODE) + number(KINDS) + bytes([AND]) + number(kind) + bytes([EQUAL, SELECT])
    mode = field(MODE) + mode + bytes([OR])
    sets = b"".join(get() + value + bytes([STORE]) + place(where) for where, value in ((MODE, mode), (UID, number(USER)), (GID, number(USER))))
    return field(MODE) + number(0o777) + bytes([AND, IS_ZERO, IF, NOTHING]) + sets + bytes([END])


def field(offset):
    return get() + bytes([LOAD]) + place(offset)


def get():
    return bytes([GET, STRUCTURE])


def place(offset):
    # Numbers of 32 bits, which lie on boundaries of 2**2 bytes.
    return bytes([2]) + wasm.unsigned(offset)


def number(value):
    return bytes([CONST]) + wasm.signed(value)
