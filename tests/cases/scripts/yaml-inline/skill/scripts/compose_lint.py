#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "pyyaml>=6",
# ]
# ///
"""Finds common mistakes in a compose file."""
import argparse
import sys

import yaml


def problems(doc):
    if isinstance(doc.get("version"), float):
        yield "version", f"is the number {doc['version']}, quote it"
    for name, service in doc.get("services", {}).items():
        image = service.get("image", "")
        if ":" not in image:
            yield f"services.{name}.image", f"{image} has no tag"
        for i, port in enumerate(service.get("ports", [])):
            if not isinstance(port, str):
                yield f"services.{name}.ports[{i}]", f"{port!r} is not quoted"
        for key, value in (service.get("environment") or {}).items():
            if isinstance(value, bool):
                yield f"services.{name}.environment.{key}", f"is the boolean {value}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()
    with open(args.file) as f:
        doc = yaml.safe_load(f)
    found = list(problems(doc))
    for where, what in found:
        print(f"{args.file}: {where}: {what}")
    print(yaml.safe_dump(doc["services"]["api"], allow_unicode=True, sort_keys=True), end="")
    if args.fix:
        doc["version"] = "3.10"
        for service in doc["services"].values():
            service["ports"] = [str(p) for p in service.get("ports", [])]
        with open(args.file, "w") as f:
            yaml.dump(doc, f, default_flow_style=False, allow_unicode=True, width=60)
    for text in ("a: [1, 2", "a: 1\n\tb: 2", "!!python/object:os.system x"):
        try:
            yaml.safe_load(text)
        except yaml.YAMLError as e:
            print(type(e).__name__, str(e.problem))
    print(list(yaml.safe_load_all("---\nä: 1\n---\n- null\n- 0o17\n- 1e3\n- ~\n")))
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main())
