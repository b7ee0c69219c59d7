import sys
words = ["alpha", "", "ünï", "x" * 1000, b"bytes", ("a", 1), frozenset(["p", "q"]), 1.5, None]
for word in words:
    print(str(word)[:10], hash(word))
print(sys.flags.hash_randomization, sys.hash_info)
