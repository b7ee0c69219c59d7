#!/usr/bin/env python3
"""Fetches all users of an API, page by page, with nothing but the standard library."""
import argparse
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request


class Client:
    def __init__(self, base, token=None):
        self.base = base.rstrip("/")
        self.headers = {"Accept": "application/json", "X-Agent": "fetch-users/1.0"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def request(self, method, path, body=None, **query):
        url = f"{self.base}{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=self.headers)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as response:
            charset = response.headers.get_content_charset() or "utf-8"
            return response.status, dict(response.headers.items()), json.loads(response.read().decode(charset))

    def pages(self, path):
        page = 1
        while page:
            _, _, data = self.request("GET", path, page=page)
            yield from data["items"]
            page = data["next"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True)
    parser.add_argument("--out", default="users.json")
    args = parser.parse_args()
    client = Client(args.base, os.environ.get("API_TOKEN"))

    users = list(client.pages("/users"))
    with open(args.out, "w") as f:
        json.dump(users, f, ensure_ascii=False, indent=2)
    print(f"{len(users)} users: {', '.join(u['name'] for u in users)}")

    status, headers, data = client.request("GET", "/health")
    print(status, headers.get("x-served-by") or headers.get("X-Served-By"), data)
    print(client.request("GET", "/private")[2])
    print(client.request("PUT", "/echo", {"größe": 1}, q="ä b&c", n=3)[2])
    print(client.request("POST", "/orders", {"sku": "T-1", "quantity": 2})[0], client.request("GET", "/orders")[2])

    with urllib.request.urlopen(f"{args.base}/old") as response:
        print("redirected to", urllib.parse.urlsplit(response.url).path, response.getcode(), response.headers["content-type"])
    with urllib.request.urlopen(f"{args.base}/data.csv") as response:
        for line in response:
            print("line", line)
    for path in ("/users/99", "/broken", "/private"):
        try:
            urllib.request.urlopen(args.base + path)
        except urllib.error.HTTPError as e:
            print(path, e.code, e.reason, e.read().decode())
    name, headers = urllib.request.urlretrieve(f"{args.base}/page.html", "page.html")
    print(name, os.path.getsize(name), headers.get_content_type())
    head = urllib.request.Request(f"{args.base}/health", method="HEAD")
    with urllib.request.urlopen(head) as response:
        print("HEAD", response.status, response.read())
    form = urllib.parse.urlencode({"a": "1 2", "ü": "ß"}).encode()
    with urllib.request.urlopen(f"{args.base}/echo", data=form) as response:
        print(json.load(response))
    try:
        client.request("POST", "/orders", {"quantity": 0})
    except urllib.error.HTTPError as e:
        print("✗", e, file=sys.stderr)
        return 5


if __name__ == "__main__":
    sys.exit(main())
