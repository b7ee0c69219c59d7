"""See https://docs.nowhere.io."""
import urllib.request

NS = {"s": "http://www.w3.org/2000/svg"}
BASE = "https://api.allowed.io"


def get(path, host):
    urllib.request.urlopen(BASE + path)
    urllib.request.urlopen(f"https://{host}/x")
    urllib.request.urlopen("https://sub.below.io")
    urllib.request.urlopen("https://api.other.io/v2")
