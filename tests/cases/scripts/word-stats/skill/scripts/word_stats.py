#!/usr/bin/env python3
# Statistics of a text on standard input: words, sentences, letters, reading time.
import collections
import re
import sys
import textwrap
import unicodedata


def words_of(text):
    text = unicodedata.normalize("NFC", text)
    return re.findall(r"[^\W_]+(?:['’][^\W_]+)*", text)


def main():
    if sys.stdin.isatty():
        print("usage: word_stats.py < FILE", file=sys.stderr)
        return 2
    lines = sys.stdin.readlines()
    text = "".join(lines)
    words = words_of(text)
    counts = collections.Counter(w.casefold() for w in words)
    sentences = [s for s in re.split(r"(?<=[.!?…])\s+", text) if s.strip()]
    kinds = collections.Counter(unicodedata.category(c) for c in text)

    print(f"lines      {len(lines)}")
    print(f"words      {len(words)}, {len(counts)} different")
    print(f"sentences  {len(sentences)}")
    print(f"characters {len(text)}, {len(text.encode())} bytes")
    print(f"categories {dict(sorted(kinds.items()))}")
    print(f"longest    {max(words, key=lambda w: (len(w), w))}")
    for word, n in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:8]:
        print(f"  {n:>2} {word:<10}|{word.title():>10}|{word.upper():^10}|")
    numbers = [unicodedata.decimal(c) for c in text if c.isdecimal()]
    print(f"numerals   {numbers}")
    names = [unicodedata.name(c, "?") for c in text if ord(c) > 0xFFFF]
    print(textwrap.fill(", ".join(names), 60, initial_indent="astral     ", subsequent_indent="           "))
    minutes, seconds = divmod(round(len(words) / 220 * 60), 60)
    print(f"reading    {minutes}:{seconds:02}")
    print(ascii(text.split()[-1]), repr(lines[5][:8]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
