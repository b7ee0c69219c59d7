import urllib.request, socket
for url in ["https://api.example.com/x", "http://127.0.0.1:9/"]:
    try:
        urllib.request.urlopen(url, timeout=5)
    except Exception as error:
        print(type(error).__name__, error)
try:
    print(socket.gethostbyname("example.com"))
except OSError as error:
    print(error)
