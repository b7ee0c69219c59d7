#!/usr/bin/env python3
"""Notes in an SQLite database: import JSON lines, query, export."""
import argparse
import contextlib
import csv
import json
import os
import sqlite3
import sys
import tempfile
from datetime import datetime

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL CHECK (length(title) > 0),
    created TEXT NOT NULL,
    stars REAL
);
CREATE TABLE IF NOT EXISTS tags (note INTEGER REFERENCES notes(id) ON DELETE CASCADE, tag TEXT, UNIQUE (note, tag));
CREATE INDEX IF NOT EXISTS by_tag ON tags(tag);
CREATE VIEW IF NOT EXISTS months AS
    SELECT strftime('%Y-%m', created) AS month, count(*) AS n, avg(stars) AS stars FROM notes GROUP BY 1;
"""


def connect(path):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    db.execute("PRAGMA foreign_keys = ON")
    db.create_function("initials", 1, lambda s: "".join(w[0] for w in s.split()))
    db.executescript(SCHEMA)
    return db


def import_file(db, path):
    added = 0
    with open(path) as f:
        for line in f:
            note = json.loads(line)
            try:
                with db:
                    db.execute("INSERT INTO notes VALUES (:id, :title, :created, :stars)", {"stars": None, **note})
                    db.executemany("INSERT INTO tags VALUES (?, ?)", [(note["id"], t) for t in note["tags"]])
                added += 1
            except sqlite3.IntegrityError as e:
                print(f"skipped {note['title']!r}: {e}")
            except sqlite3.ProgrammingError as e:
                print(f"bad note {note['id']}: {e}")
    return added


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["import"])
    parser.add_argument("file")
    parser.add_argument("--export")
    args = parser.parse_args()

    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "notes.db")
    with contextlib.closing(connect(path)) as db:
        print("added", import_file(db, args.file))
    # Closed and opened again: it is in the file.
    with contextlib.closing(connect(path)) as db:
        print("size is whole pages:", os.path.getsize(path) % 4096 == 0)
        for row in db.execute("SELECT * FROM months ORDER BY month"):
            print(dict(row))
        query = "SELECT title, initials(title) AS i, group_concat(tag, '+') AS t FROM notes LEFT JOIN tags ON note = id GROUP BY id ORDER BY id"
        for row in db.execute(query):
            print(tuple(row))
        print([r["tag"] for r in db.execute("SELECT DISTINCT tag FROM tags WHERE tag LIKE ? ORDER BY tag", ("%t%",))])
        ranked = "SELECT title, rank() OVER (ORDER BY stars DESC NULLS LAST) AS place FROM notes ORDER BY place, title"
        print([tuple(r) for r in db.execute(ranked)])
        print(db.execute("SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]')").fetchone()[0], db.execute("SELECT ? + 1", (2**40,)).fetchone()[0])
        if args.export:
            with open(args.export, "w", newline="") as f:
                out = csv.writer(f, quoting=csv.QUOTE_NONNUMERIC)
                cursor = db.execute("SELECT * FROM notes ORDER BY created DESC")
                out.writerow(c[0] for c in cursor.description)
                out.writerows(tuple(r) for r in cursor)
        db.execute("DELETE FROM notes WHERE id = 1")
        print("tags left:", db.execute("SELECT count(*) FROM tags").fetchone()[0])
        db.rollback()
        print("\n".join(line for line in db.iterdump() if "INSERT" in line))
    newest = max(datetime.fromisoformat(json.loads(l)["created"]) for l in open(args.file))
    print("newest", newest.strftime("%d.%m.%Y %H:%M"))
    try:
        sqlite3.connect(os.path.join(folder, "no", "such.db"))
    except sqlite3.OperationalError as e:
        print("error:", e, file=sys.stderr)
        return 0


if __name__ == "__main__":
    sys.exit(main())
