# sandbox: a native python3 has more memory
try:
    bytearray((1 << 31) - 100)
except MemoryError as error:
    print(repr(error))
blocks = []
try:
    while True:
        blocks.append(bytearray(16 << 20))
except MemoryError:
    held = len(blocks)
    blocks.clear()
    print("MemoryError", held > 8)
