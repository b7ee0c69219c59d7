import secrets
print(secrets.token_hex(16), secrets.token_urlsafe(9), secrets.randbelow(10**12), secrets.choice("abcdef"))
