#!/usr/bin/env python3
"""HTML on standard input to Markdown on standard output."""
import argparse
import re
import sys
from html.parser import HTMLParser
from urllib.parse import parse_qs, quote, unquote, urljoin, urlsplit

SKIPPED = {"script", "style", "head"}
MARKS = {"em": "*", "i": "*", "b": "**", "strong": "**", "code": "`"}


class Converter(HTMLParser):
    def __init__(self, base):
        super().__init__(convert_charrefs=True)
        self.base, self.out, self.links = base, [], []
        self.skip, self.pre, self.href, self.cells = 0, False, None, []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in SKIPPED:
            self.skip += 1
        elif re.fullmatch(r"h[1-6]", tag):
            self.out.append("\n\n" + "#" * int(tag[1]) + " ")
        elif tag == "p":
            self.out.append("\n\n")
        elif tag == "br":
            self.out.append("  \n")
        elif tag == "li":
            self.out.append("\n- ")
        elif tag == "pre":
            self.pre = True
            self.out.append("\n\n```\n")
        elif tag == "a":
            self.href = urljoin(self.base, attrs.get("href", ""))
            self.out.append("[")
        elif tag == "img":
            self.out.append(f"![{attrs.get('alt', '')}]({quote(urljoin(self.base, attrs['src']), safe=':/')})")
        elif tag == "tr":
            self.out.append("\n|")
        elif tag in ("td", "th"):
            self.out.append(" ")
        elif tag in MARKS:
            self.out.append(MARKS[tag])

    def handle_endtag(self, tag):
        if tag in SKIPPED:
            self.skip -= 1
        elif tag == "pre":
            self.pre = False
            self.out.append("\n```\n")
        elif tag == "a":
            self.out.append(f"]({self.href})")
            self.links.append(self.href)
        elif tag in ("td", "th"):
            self.out.append(" |")
        elif tag in MARKS:
            self.out.append(MARKS[tag])

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data if self.pre else re.sub(r"\s+", " ", data))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="")
    args = parser.parse_args()
    converter = Converter(args.base)
    for line in sys.stdin:
        converter.feed(line)
    converter.close()
    text = re.sub(r"\n{3,}", "\n\n", "".join(converter.out)).strip()
    print(text)
    print("\n---")
    for link in converter.links:
        parts = urlsplit(link)
        print(parts.netloc, parts.path, parse_qs(parts.query), parts.port)
    print(unquote("Gr%C3%BCn%20tee"), quote("Grün/tee?"), urljoin("http://a/b/c", "//d/e"))


if __name__ == "__main__":
    main()
