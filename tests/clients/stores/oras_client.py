"""Pushes files to a registry, or pulls them, with oras. Arguments: push or pull, host, user, password, target, files or a folder."""

import sys

import oras.client

verb, host, user, password, target, *files = sys.argv[1:]
client = oras.client.OrasClient(insecure=True, auth_backend="basic")
client.auth.set_basic_auth(user, password)
if verb == "push":
    client.push(target=target, files=files)
else:
    for path in client.pull(target=target, outdir=files[0]):
        print(path)
