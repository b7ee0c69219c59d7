import sys
import urllib.request

url, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    with urllib.request.urlopen(url) as answer:
        assert answer.status == 200 and answer.read()
