#!/usr/bin/env python3
"""
Places the orders of a CSV file in the shop.

Environment:
    SHOP_URL    address of the shop's API
    SHOP_TOKEN  its token
"""
import csv
import os
import sys

try:
    import requests
except ImportError:
    print("Error: requests not installed. Run: pip install requests", file=sys.stderr)
    sys.exit(2)

BASE = os.environ.get("SHOP_URL")
TOKEN = os.environ.get("SHOP_TOKEN")


def session():
    s = requests.Session()
    s.headers.update({"Authorization": f"Bearer {TOKEN}", "X-Agent": "orders"})
    return s


def place(s, row):
    response = s.post(f"{BASE}/orders", json={"sku": row["sku"], "quantity": int(row["quantity"]), "note": row["note"]}, timeout=(10, 30))
    if response.status_code == 422:
        return f"refused: {response.json()['error']}"
    response.raise_for_status()
    return f"order {response.json()['id']} at {response.headers['Location']}"


def main():
    if not BASE or not TOKEN:
        print("SHOP_URL and SHOP_TOKEN must be set", file=sys.stderr)
        return 2
    with session() as s:
        with open(sys.argv[1], newline="") as f:
            for row in csv.DictReader(f):
                print(row["sku"], "→", place(s, row))
        print([(o["sku"], o["note"]) for o in s.get(f"{BASE}/orders").json()])

        r = s.get(f"{BASE}/users", params={"page": 2})
        print(r.ok, r.status_code, r.reason, r.encoding, r.headers["content-type"], [u["name"] for u in r.json()["items"]])
        r = s.get(f"{BASE}/old")
        print([h.status_code for h in r.history], r.url.rsplit("/", 2)[1:], r.json()["city"])
        r = s.get(f"{BASE}/old", allow_redirects=False)
        print(r.is_redirect, r.headers["location"], repr(r.text))
        print(s.get(f"{BASE}/private").json(), requests.get(f"{BASE}/private").status_code)
        echo = s.put(f"{BASE}/echo", data={"a": ["1", "2"], "ü": "ö ä"}).json()
        print(echo["type"], echo["body"], echo["agent"])
        echo = s.post(f"{BASE}/echo", data="käse".encode(), headers={"Content-Type": "text/plain"}, params={"x": "1/2"}).json()
        print(echo)
        with s.get(f"{BASE}/data.csv", stream=True) as r:
            for line in r.iter_lines(decode_unicode=True):
                print("|", line)
        print(s.head(f"{BASE}/health").headers["X-Served-By"], len(s.get(f"{BASE}/page.html").content))
        try:
            s.get("http://127.0.0.1:1/", timeout=5)
        except requests.exceptions.ConnectionError:
            print("no connection")
        try:
            s.get(f"{BASE}/broken").raise_for_status()
        except requests.HTTPError as e:
            print(e.response.status_code, e.response.json())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
