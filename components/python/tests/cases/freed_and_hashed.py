# The types whose objects are freed and hashed by direct calls (build/calls.py), and others in the same places.
import weakref


def watched(base):
    """Subclasses take another path than the types they are of; both end in the same functions."""

    class Watched(base):
        def __del__(self):
            freed.append(base.__name__)

    return Watched


class Plain:
    def __init__(self, *parts):
        self.parts = parts


class Hashed(str):
    def __hash__(self):
        return 7


freed = []
VALUES = {str: "abc" * 9, float: 1.5, list: [1], tuple: (1, 2), dict: {1: 2}, int: 1 << 70, bytes: b"x" * 40, set: {3}, Plain: "p"}
for base, value in VALUES.items():
    held = watched(base)(value)
    inside = [held, (held, {"key": held})]
    del held
    print(base.__name__, freed, end=" ")
    del inside
    print(freed)
    freed.clear()

# An object goes with the last of what holds it, whatever that is: each of the likely types, and some that are none of them.
HOLDERS = [
    lambda it: [it],
    lambda it: (it,),
    lambda it: {"k": it},
    lambda it: {it: 1},
    lambda it: {it},
    lambda it: Plain(it),
    lambda it: iter([it]),
    lambda it: lambda: it,
]
for make in HOLDERS:
    plain = Plain()
    gone = weakref.ref(plain)
    holder = make(plain)
    del plain
    before = gone() is None
    del holder
    print(before, gone() is None)

# Deep nests are freed without recursion.
for wrap in (lambda inner: [inner], lambda inner: (inner,), lambda inner: {"k": inner}):
    nest = None
    for _ in range(100_000):
        nest = wrap(nest)
    del nest

keys = ["text", "täxt", 5, -1, 1 << 80, 2.5, (1, "a"), b"b", None, frozenset({1}), Hashed("text"), Plain, print]
table = {key: at for at, key in enumerate(keys)}
print([table[key] for key in keys], len(table), hash(Hashed("x")), hash(5), hash(-1), hash(2.0) == hash(2))
for unhashable in ([], {}, set(), bytearray()):
    try:
        hash(unhashable)
    except TypeError as error:
        print(error)

# Small and large, grown and cut: what was there stays.
grown = bytearray()
text, numbers = "", []
for at in range(3000):
    grown += bytes([at % 256])
    text += chr(97 + at % 26)
    numbers.append(float(at))
del numbers[10:2990]
print(len(grown), grown[:4], grown[-4:], text[:30], text[-5:], numbers[8:12])
