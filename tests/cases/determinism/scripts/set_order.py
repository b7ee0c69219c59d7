words = open("/workspace/table.csv").read().replace(",", " ").split()
print(set(words), frozenset(w.upper() for w in words))
print({object(): 1 for _ in range(3)})
seen = set()
for word in words * 3:
    seen ^= {word, word[::-1]}
print(list(seen))
