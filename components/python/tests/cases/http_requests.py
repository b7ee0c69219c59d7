# server: yes
# needs: requests
import os

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

BASE = os.environ["SERVER"]
answer = requests.get(BASE + "/echo", params={"q": "1"}, headers={"X-Test": "a"})
print(answer.status_code, answer.reason, answer.ok, answer.json(), answer.headers["x-custom-header"], answer.encoding)
print(requests.post(BASE + "/echo", json={"a": 1}).json())
print([step.status_code for step in requests.get(BASE + "/redirect").history], requests.get(BASE + "/redirect", allow_redirects=False).status_code)
with requests.Session() as session:
    session.headers["X-Test"] = "session"
    for n in range(3):
        print(session.get(f"{BASE}/echo?{n}").json()["test"])
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=2, status_forcelist=[500], backoff_factor=0.01)))
    try:
        session.get(BASE + "/broken")
    except requests.exceptions.RetryError as error:
        print("RetryError")
try:
    requests.get(BASE + "/missing").raise_for_status()
except requests.HTTPError as error:
    print(str(error).replace(BASE, "BASE"))
for timeout in (1, (5, 1)):
    try:
        requests.get(BASE + "/silent", timeout=timeout)
    except requests.exceptions.ReadTimeout as error:
        print("ReadTimeout")
try:
    requests.get(os.environ["CLOSED"])
except requests.exceptions.ConnectionError as error:
    print("ConnectionError", type(error.args[0].reason).__name__, "Connection refused" in str(error))
with requests.get(BASE + "/stream", stream=True) as answer:
    for line in answer.iter_lines():
        print(line)
print(len(requests.get(BASE + "/big").content))
print(requests.put(BASE + "/echo", data=(b"z" * 10_000 for _ in range(100))).json()["length"])
print(requests.post(BASE + "/echo", files={"f": ("a.txt", b"file")}).json()["length"] > 100)
try:
    requests.get(BASE + "/cut")
except requests.exceptions.ChunkedEncodingError as error:
    print("ChunkedEncodingError")
print(requests.get(BASE + "/gzip").text)
print(requests.get(BASE + "/login", auth=("user", "word")).json()["authorization"])
