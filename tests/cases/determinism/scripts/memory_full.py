blocks = []
try:
    while True:
        blocks.append(bytearray(8 << 20))
except MemoryError:
    count = len(blocks)
    blocks = None
    print("full after", count)
