#!/usr/bin/env python3
# An import that ends in the middle by a fault of its own: what was done before is kept, and the traceback says where.
import argparse
import contextlib
import io
import json
import os
import sys
import traceback
import warnings


class ImportFailed(Exception):
    def __init__(self, name):
        super().__init__(f"Datensatz {name!r}")
        self.add_note("the ones before are stored")


def rate(record):
    return 100 / record["n"]


def store(record, done):
    try:
        value = rate(record)
    except ZeroDivisionError as e:
        raise ImportFailed(record["name"]) from e
    finally:
        done.append(record["name"])
    with open("done.txt", "a") as f:
        f.write(f"{record['name']} {value:.1f} %\n")


@contextlib.contextmanager
def lock(path):
    with open(path, "x"):
        pass
    try:
        yield
    finally:
        os.remove(path)
        print("lock removed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    args = parser.parse_args()
    warnings.warn("old format", DeprecationWarning, stacklevel=2)
    done = []
    print("start…", end=" ")
    try:
        raise KeyError("ü")
    except KeyError:
        print(traceback.format_exc().splitlines()[-1])
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        print("not seen")
    print(len(captured.getvalue()), [type(e).__name__ for e in (ValueError(), OSError(2, "x"))])
    with open(args.file) as f, lock("import.lock"):
        for record in json.load(f):
            store(record, done)
            print("stored", record["name"])


if __name__ == "__main__":
    main()
    sys.exit(0)
