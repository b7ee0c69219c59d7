#!/usr/bin/env python3
"""
Totals of invoices, by customer or month.

Usage:
    python totals.py invoices.csv --by customer --vat 19 -o totals.json
"""
import argparse
import csv
import json
import os
import sys
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path

CENT = Decimal("0.01")


def read_invoices(path):
    with open(path, newline="") as f:
        for line, row in enumerate(csv.DictReader(f), start=2):
            try:
                row["net"] = Decimal(row["net"])
            except InvalidOperation:
                print(f"⚠ line {line}: {row['number']}: {row['net']!r} is no amount, skipped")
                continue
            yield row


def group_key(row, by):
    return row["date"][:7] if by == "month" else row[by]


def main():
    parser = argparse.ArgumentParser(description="Totals of invoices")
    parser.add_argument("file", type=Path)
    parser.add_argument("--by", choices=["customer", "month", "currency"], default="customer")
    parser.add_argument("--vat", type=Decimal, default=Decimal("0"), help="percent")
    parser.add_argument("-o", "--output", help="JSON file")
    parser.add_argument("--markdown", help="Markdown file")
    args = parser.parse_args()

    groups = defaultdict(list)
    for row in read_invoices(args.file):
        groups[group_key(row, args.by)].append(row)

    result = []
    for key, rows in groups.items():
        net = sum((row["net"] for row in rows), Decimal(0))
        vat = (net * args.vat / 100).quantize(CENT, ROUND_HALF_UP)
        net = net.quantize(CENT, ROUND_HALF_UP)
        result.append({"group": key, "invoices": len(rows), "net": str(net), "vat": str(vat), "gross": str(net + vat)})
    result.sort(key=lambda r: -Decimal(r["gross"]))

    if args.output:
        os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
        with open(args.output, "w") as f:
            json.dump(result, f, indent=2, ensure_ascii=False)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write("| " + args.by + " | net | gross |\n|---|--:|--:|\n")
            for r in result:
                f.write(f"| {r['group']} | {Decimal(r['net']):,} € | {Decimal(r['gross']):,} € |\n")

    for r in result:
        print(f"{r['group']:<24}{r['invoices']:>3} {r['net']:>12} {r['gross']:>12}")
    total = sum(Decimal(r["gross"]) for r in result)
    print(f"✅ {len(result)} groups, {total:,} € in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
