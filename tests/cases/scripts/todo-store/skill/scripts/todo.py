#!/usr/bin/env python3
"""A to-do list in a JSON file."""
import argparse
import json
import os
import sys
from dataclasses import asdict, dataclass
from datetime import date
from enum import IntEnum
from functools import total_ordering
from typing import Optional


class Priority(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @classmethod
    def parse(cls, text):
        try:
            return cls[text.upper()]
        except KeyError:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(p.name.lower() for p in cls)}")

    def __str__(self):
        return "!" * self.value


@total_ordering
@dataclass(eq=False)
class Item:
    id: int
    text: str
    priority: Priority = Priority.MEDIUM
    done: bool = False
    due: Optional[date] = None

    def key(self):
        return (self.done, -self.priority, self.due or date.max, self.id)

    def __lt__(self, other):
        return self.key() < other.key()


class Store:
    def __init__(self, path):
        self.path, self.items = path, []

    def __enter__(self):
        if os.path.exists(self.path):
            with open(self.path) as f:
                for raw in json.load(f):
                    raw["priority"] = Priority[raw["priority"].upper()]
                    raw["due"] = date.fromisoformat(raw["due"]) if raw["due"] else None
                    self.items.append(Item(**raw))
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            with open(self.path, "w") as f:
                json.dump([asdict(i) for i in self.items], f, default=self.plain, indent=1)

    @staticmethod
    def plain(value):
        return value.isoformat() if isinstance(value, date) else str(value)

    def next_id(self):
        return max((i.id for i in self.items), default=0) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default=os.path.expanduser("~/todo.json"))
    verbs = parser.add_subparsers(dest="verb")
    add = verbs.add_parser("add")
    add.add_argument("text")
    add.add_argument("--priority", type=Priority.parse, default="medium")
    add.add_argument("--due", type=date.fromisoformat)
    verbs.add_parser("list")
    args = parser.parse_args()

    with Store(args.file) as store:
        if args.verb == "add":
            item = Item(store.next_id(), args.text, args.priority, due=args.due)
            store.items.append(item)
            print(f"#{item.id} {item!r}")
        for item in sorted(store.items):
            print(f"[{'x' if item.done else ' '}] {item.id:>3} {item.priority!s:<3} {item.text:<20} {item.due or '—'}")
        store.items = [Item(**{**asdict(i), "priority": i.priority.name.lower()}) for i in store.items]
    print(os.path.expanduser("~") == os.environ["HOME"], Priority.HIGH > Priority.LOW, Priority(2).name)


if __name__ == "__main__":
    sys.exit(main())
