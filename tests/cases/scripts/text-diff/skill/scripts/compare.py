#!/usr/bin/env python3
"""Compare documents: as a diff, word by word, or by likeness."""
import argparse
import difflib
import html
import sys


def lines(path):
    with open(path) as f:
        return f.read().splitlines()


def words_html(a, b):
    """The second text with what was added and removed marked."""
    a, b = a.split(" "), b.split(" ")
    out = []
    for op, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if op in ("replace", "delete"):
            out.append(f"<del>{html.escape(' '.join(a[i1:i2]))}</del>")
        if op in ("replace", "insert"):
            out.append(f"<ins>{html.escape(' '.join(b[j1:j2]))}</ins>")
        if op == "equal":
            out.append(html.escape(" ".join(b[j1:j2])))
    return " ".join(out)


def compare(args):
    old, new = lines(args.old), lines(args.new)
    diff = list(difflib.unified_diff(old, new, args.old, args.new, lineterm="", n=args.context))
    print("\n".join(diff))
    for line in difflib.ndiff(old, new):
        print(line.rstrip())
    ratio = difflib.SequenceMatcher(None, old, new).ratio()
    print(f"Ähnlichkeit: {ratio:.1%}")
    if args.html:
        with open(args.html, "w") as f:
            f.write("<pre>" + words_html("\n".join(old), "\n".join(new)) + "</pre>\n")
    return 1 if diff else 0


def suggest(args):
    with open(args.words) as f:
        known = f.read().split()
    for word in args.word:
        print(word, "→", ", ".join(difflib.get_close_matches(word, known, n=args.n)) or "?")
    return 0


def main():
    parser = argparse.ArgumentParser(prog="compare", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    p = verbs.add_parser("compare", aliases=["c"])
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--html")
    p.add_argument("--context", type=int, default=3)
    p.set_defaults(run=compare)
    p = verbs.add_parser("suggest")
    p.add_argument("words")
    p.add_argument("word", nargs="+")
    p.add_argument("-n", type=int, default=3)
    p.set_defaults(run=suggest)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
