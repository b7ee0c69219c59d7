#!/usr/bin/env python3
"""Probes the endpoints of a list and reports which are not as expected."""

import argparse
import fnmatch
import json
import sys
import time

try:
    import requests
    import endpoints
except ImportError as error:
    print(f"error: a package is missing ({error.name}): pip install -r requirements.txt", file=sys.stderr)
    sys.exit(2)

import answers


def main() -> int:
    args = parse_args()
    try:
        listed = endpoints.load(args.list)
    except endpoints.InvalidList as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    chosen = [endpoint for endpoint in listed if fnmatch.fnmatchcase(endpoint.name, args.only)]
    if not chosen:
        print(f"error: no endpoint matches {args.only!r}; the endpoints are: {', '.join(e.name for e in listed)}", file=sys.stderr)
        return 2

    with requests.Session() as session:
        results = [probe(session, endpoint) for endpoint in chosen]
    failed = sum(not result["ok"] for result in results)
    if args.json:
        json.dump({"ok": not failed, "endpoints": results}, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        print_table(results)
        print(f"\n{len(results) - failed} of {len(results)} endpoints as expected")
    return 1 if failed else 0


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", help="the list of endpoints, in YAML or JSON")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of the endpoints to probe, such as 'user*'")
    parser.add_argument("--json", action="store_true", help="print JSON, including durations")
    return parser.parse_args()


def probe(session, endpoint) -> dict:
    result = {"name": endpoint.name, "method": endpoint.method, "url": endpoint.url}
    start = time.monotonic()
    try:
        response = session.request(
            endpoint.method, endpoint.url, params=endpoint.query, headers=endpoint.headers, json=endpoint.json,
            timeout=endpoint.timeout, allow_redirects=endpoint.redirects,
        )
    except requests.Timeout:
        return {**result, "ok": False, "problems": [f"no answer within {endpoint.timeout:g} s"]}
    except requests.RequestException as error:
        return {**result, "ok": False, "problems": [f"no connection: {type(error).__name__}"], "detail": str(error)}
    milliseconds = (time.monotonic() - start) * 1000

    latency = endpoint.latency_class(milliseconds)
    problems = list(answers.problems(endpoint, response, latency))
    return {
        **result,
        "ok": not problems,
        "status": response.status_code,
        "reason": response.reason,
        "latency": latency,
        "ms": round(milliseconds, 1),
        "bytes": len(response.content),
        "problems": problems,
    }


def print_table(results) -> None:
    rows = [("", "endpoint", "method", "status", "latency", "bytes")]
    for result in results:
        shown = (str(result.get(key, "-")) for key in ("status", "latency", "bytes"))
        rows.append(("ok" if result["ok"] else "FAIL", result["name"], result["method"], *shown))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for place, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        for problem in results[place - 1]["problems"] if place else ():
            print(f"{'':{widths[0]}}  - {problem}")


if __name__ == "__main__":
    sys.exit(main())
