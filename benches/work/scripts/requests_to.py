import sys

url, count = sys.argv[1], int(sys.argv[2])
if sys.argv[3:] == ["requests"]:
    import requests

    for _ in range(count):
        answer = requests.get(url)
        assert answer.status_code == 200 and answer.content
else:
    import urllib.request

    for _ in range(count):
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200 and answer.read()
