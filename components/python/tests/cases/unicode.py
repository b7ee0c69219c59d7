# argv: größe 日本 😀
import sys

print(sys.argv[1:], [len(a) for a in sys.argv[1:]])
open("дом.txt", "w").write("naïve 😀")
print(open("дом.txt").read(), "\udc80".encode(errors="surrogateescape"))
