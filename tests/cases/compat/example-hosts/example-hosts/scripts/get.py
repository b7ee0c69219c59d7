from urllib.request import urlopen

print(urlopen("https://example.com").read())
