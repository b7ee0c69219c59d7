import collections
counts = collections.Counter("the quick brown fox jumps over the lazy dog")
print(counts.most_common(), dict(sorted(counts.items())))
print({k: v for k, v in zip({"b", "a", "d", "c"}, range(4))}, vars(collections.Counter).keys())
