#!/usr/bin/env python3
"""Groups log lines into sessions of users."""
from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import logging
import operator
import pathlib
import shlex
import sys
from datetime import datetime, timedelta, timezone
from enum import Enum, auto

log = logging.getLogger("sessions")


class End(Enum):
    LOGOUT = auto()
    GAP = auto()
    OPEN = auto()


@dataclasses.dataclass(order=True)
class Event:
    when: datetime
    user: str
    action: str
    extra: dict = dataclasses.field(default_factory=dict, compare=False)


@dataclasses.dataclass
class Session:
    user: str
    events: list[Event]
    end: End = End.OPEN

    @property
    def length(self) -> timedelta:
        return self.events[-1].when - self.events[0].when


def parse(lines):
    for number, line in enumerate(lines, 1):
        try:
            stamp, *pairs = shlex.split(line)
            fields = dict(pair.split("=", 1) for pair in pairs)
            yield Event(datetime.fromisoformat(stamp).astimezone(timezone.utc), fields.pop("user"), fields.pop("action"), fields)
        except (ValueError, KeyError) as e:
            log.warning("line %d ignored (%s): %s", number, type(e).__name__, line.rstrip())


def sessions(events, gap):
    events = sorted(events, key=operator.attrgetter("user", "when"))
    for user, group in itertools.groupby(events, key=operator.attrgetter("user")):
        current = None
        for event in group:
            if current and event.when - current.events[-1].when > gap:
                current.end = End.GAP
                yield current
                current = None
            current = current or Session(user, [])
            current.events.append(event)
            if event.action == "logout":
                current.end = End.LOGOUT
                yield current
                current = None
        if current:
            yield current


def setup_logging(verbosity, file):
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG)
    handlers = [logging.StreamHandler(sys.stdout)]
    if file:
        pathlib.Path(file).parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(file, mode="w"))
    logging.basicConfig(level=level, format="%(levelname)-7s %(name)s.%(funcName)s:%(lineno)d %(message)s", handlers=handlers)


def default(value):
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.name.lower()
    raise TypeError(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=argparse.FileType("r"))
    parser.add_argument("--gap", type=float, default=60, help="minutes")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    parser.add_argument("--log-file")
    args = parser.parse_args()
    setup_logging(args.verbose, args.log_file)
    log.info("reading %s", args.file.name)

    events = list(parse(args.file))
    log.debug("%d events, from %s", len(events), min(events).when)
    for session in sessions(events, timedelta(minutes=args.gap)):
        print(f"{session.user:<4} {len(session.events)} events, {session.length}, {session.end}")
        print(json.dumps(dataclasses.asdict(session), default=default, ensure_ascii=False, sort_keys=True))
    try:
        1 / 0
    except ZeroDivisionError:
        log.error("no average: %s", "∅")
    logging.getLogger("other").critical("from elsewhere")


if __name__ == "__main__":
    main()
