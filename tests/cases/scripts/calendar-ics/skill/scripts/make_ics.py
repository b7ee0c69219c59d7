#!/usr/bin/env python3
"""Makes an iCalendar file of a CSV list of appointments, and shows the weeks."""
import argparse
import calendar
import csv
import hashlib
from datetime import date, datetime, timedelta, timezone

CET = timezone(timedelta(hours=1), "CET")


def fold(line):
    """Lines of at most 75 bytes; what follows begins with a space."""
    out, current = [], b""
    for char in line:
        encoded = char.encode()
        if len(current) + len(encoded) > 74 + (not out):
            out.append(current)
            current = b" "
        current += encoded
    return b"\r\n".join(out + [current])


def escape(text):
    for char in "\\;,":
        text = text.replace(char, "\\" + char)
    return text.replace("\n", "\\n")


def read(path):
    with open(path, newline="") as f:
        for row in csv.DictReader(f, delimiter=";", quoting=csv.QUOTE_NONE):
            start = datetime.strptime(row["start"], "%Y-%m-%d %H:%M").replace(tzinfo=CET)
            yield {"title": row["titel"], "start": start, "end": start + timedelta(minutes=int(row["dauer"])), "weekly": row["wiederholung"] == "weekly"}


def event(entry):
    stamp = "%Y%m%dT%H%M%SZ"
    uid = hashlib.sha1((entry["title"] + entry["start"].isoformat()).encode()).hexdigest()[:12]
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}@example.org"
    yield f"DTSTART:{entry['start'].astimezone(timezone.utc):{stamp}}"
    yield f"DTEND:{entry['end'].astimezone(timezone.utc):{stamp}}"
    yield f"SUMMARY:{escape(entry['title'])}"
    if entry["weekly"]:
        yield "RRULE:FREQ=WEEKLY"
    yield "END:VEVENT"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--from", dest="first", type=date.fromisoformat, required=True)
    parser.add_argument("--weeks", type=int, default=1)
    args = parser.parse_args()

    entries = sorted(read(args.file), key=lambda e: e["start"])
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//example//ics//DE"]
    for entry in entries:
        lines += event(entry)
    lines.append("END:VCALENDAR")
    with open(args.output, "wb") as f:
        f.write(b"\r\n".join(map(fold, lines)) + b"\r\n")

    for week in range(args.weeks):
        monday = args.first + timedelta(weeks=week)
        print(f"KW {monday.isocalendar().week}, {monday:%d.%m.} – {monday + timedelta(days=6):%d.%m.%Y}")
        for entry in entries:
            day = entry["start"].date()
            for at in {day + timedelta(weeks=n) for n in range(10 if entry["weekly"] else 1)}:
                if monday <= at < monday + timedelta(weeks=1):
                    print(f"  {calendar.day_abbr[at.weekday()]} {entry['start']:%H:%M} {entry['title']} ({entry['end'] - entry['start']})")
    print(calendar.month(2024, 2))
    print(calendar.isleap(2024), (date(2024, 12, 25) - args.first).days, datetime.fromtimestamp(0, timezone.utc), datetime.max.year)
    print(entries[0]["start"].isoformat(), entries[0]["start"].strftime("%A %j %U %p %I %Z %z"), entries[-1]["end"].timestamp())
    print(datetime(2024, 1, 1, 12, 0).astimezone().utcoffset(), datetime.strptime("12 Okt 2024".replace("Okt", "Oct"), "%d %b %Y"))


if __name__ == "__main__":
    main()
