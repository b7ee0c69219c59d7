import base64, calendar, collections, csv, datetime, decimal, difflib, email.message, fractions, hashlib, heapq, hmac, html, io, itertools
import json, math, pickle, random, re, shlex, statistics, string, struct, textwrap, tomllib, typing, unicodedata, urllib.parse, uuid
import xml.etree.ElementTree as ET
import zoneinfo, configparser, dataclasses, enum, inspect, ipaddress, locale, mimetypes, pprint, secrets, sched, wave, colorsys, imaplib, cProfile, pdb, doctest, pydoc

print(hashlib.sha256(b"x").hexdigest()[:8], hashlib.md5(b"x").hexdigest()[:8], hmac.new(b"k", b"m", "sha1").hexdigest()[:8], hashlib.blake2b(b"x").hexdigest()[:8])
print(json.dumps({"a": [1, None, "ä"]}, ensure_ascii=False), list(csv.reader(io.StringIO('a,"b,c"\n'))), statistics.median([1, 2, 4]))
print(decimal.Decimal("1.1") + 2, fractions.Fraction(1, 3), datetime.date(2024, 2, 29).isoformat(), calendar.isleap(2024))
print(ET.fromstring("<a><b>x</b></a>").find("b").text, re.findall(r"\w+", "a b"), urllib.parse.quote("a b/ä"), tomllib.loads("a = 1"))
print(unicodedata.name("ä"), struct.pack("<I", 1), base64.b64encode(b"x"), ipaddress.ip_address("10.0.0.1").is_private, mimetypes.guess_type("a.html"))
print(hashlib.pbkdf2_hmac("sha256", b"p", b"s", 2).hex()[:8])


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


print(Point(1), inspect.getsource(Point).splitlines()[1])
