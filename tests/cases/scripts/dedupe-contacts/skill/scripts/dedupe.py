#!/usr/bin/env python3
"""Finds people who are in a list of contacts more than once."""
import argparse
import copy
import json
import pprint
import sys
import unicodedata
import uuid
from collections import ChainMap
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

NAMESPACE = uuid.UUID("12345678-1234-5678-1234-567812345678")


@dataclass(frozen=True)
class Contact:
    name: str
    mail: str = ""
    phone: str = ""

    @cached_property
    def keys(self):
        keys = {("name", folded(self.name))}
        if self.mail:
            keys.add(("mail", self.mail.lower()))
        if self.phone:
            keys.add(("phone", digits(self.phone)))
        return frozenset(keys)


@lru_cache(maxsize=None)
def folded(name):
    if ", " in name:
        name = " ".join(reversed(name.split(", ", 1)))
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c))


def digits(phone):
    number = "".join(filter(str.isdigit, phone))
    return "49" + number[1:] if number.startswith("0") else number


def clusters(contacts):
    groups = []
    for contact in contacts:
        same = [g for g in groups if any(contact.keys & other.keys for other in g)]
        merged = [c for g in same for c in g] + [contact]
        groups = [g for g in groups if g not in same] + [merged]
    return groups


def merge(group):
    best = group[0]
    for other in group[1:]:
        best = replace(best, mail=best.mail or other.mail, phone=best.phone or other.phone)
    return best


def vcard(contact):
    uid = uuid.uuid5(NAMESPACE, folded(contact.name))
    return f"BEGIN:VCARD\nVERSION:4.0\nUID:{uid}\nFN:{unicodedata.normalize('NFC', contact.name)}\nEMAIL:{contact.mail.lower()}\nEND:VCARD\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--vcard", type=Path)
    args = parser.parse_args()
    defaults = {"name": "?", "mail": "", "phone": ""}
    raw = [dict(ChainMap({k: v for k, v in r.items() if v}, defaults)) for r in json.loads(args.file.read_text())]
    contacts = [Contact(**r) for r in raw]
    groups = clusters(contacts)
    for group in groups:
        print(len(group), " = ".join(c.name for c in group), "→", merge(group).phone or "—")
    pprint.pprint({folded(c.name): sorted(c.keys) for c in contacts}, width=70)
    if args.vcard:
        args.vcard.write_text("".join(vcard(merge(g)) for g in groups))
    again = copy.deepcopy(contacts)
    print(again == contacts, again[0] is contacts[0], folded.cache_info().misses, hash(contacts[0]) == hash(again[0]))
    try:
        contacts[0].name = "x"
    except AttributeError as e:
        print(type(e).__name__, e)
    print(sorted(["ä", "z", "a", "Z", "é"]), sorted(["ä", "z", "a", "Z"], key=folded), "ß".upper(), "İ".lower() == "i̇", "ǆ".title())


if __name__ == "__main__":
    sys.exit(main())
