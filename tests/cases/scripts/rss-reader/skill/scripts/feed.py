#!/usr/bin/env python3
"""Read an RSS feed and list the newest entries, or make an OPML file of it."""
import argparse
import email.utils
import html
import re
import sys
import xml.etree.ElementTree as ET
from datetime import timezone

NS = {"dc": "http://purl.org/dc/elements/1.1/", "content": "http://purl.org/rss/1.0/modules/content/"}


def strip_tags(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text or "")).strip()


def entries(root):
    for item in root.iterfind("./channel/item"):
        date = item.findtext("pubDate")
        when = email.utils.parsedate_to_datetime(date).astimezone(timezone.utc) if date else None
        yield {
            "title": item.findtext("title"),
            "link": item.findtext("link", default="-"),
            "author": item.findtext("dc:creator", namespaces=NS),
            "when": when,
            "text": strip_tags(item.findtext("content:encoded", namespaces=NS)),
        }


def write_opml(path, title, link):
    opml = ET.Element("opml", version="2.0")
    ET.SubElement(ET.SubElement(opml, "head"), "title").text = "Feeds"
    ET.SubElement(ET.SubElement(opml, "body"), "outline", {"text": title, "type": "rss", "htmlUrl": link, "note": '<"&>'})
    ET.indent(opml)
    ET.ElementTree(opml).write(path, encoding="utf-8", xml_declaration=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("feed")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--opml")
    args = parser.parse_args()
    try:
        tree = ET.parse(args.feed)
    except ET.ParseError as e:
        print(f"not XML: {e}", file=sys.stderr)
        return 1
    root = tree.getroot()
    print(root.tag, root.attrib, root.findtext("channel/title"))
    found = sorted(entries(root), key=lambda e: e["when"].timestamp() if e["when"] else 0, reverse=True)
    for e in found[: args.limit]:
        print(f"{e['when']:%Y-%m-%d %H:%M} {e['title']} ({e['author']}) {e['link']}")
        if e["text"]:
            print("   ", e["text"])
    print(f"… {len(found) - args.limit} more")
    if args.opml:
        write_opml(args.opml, root.findtext("channel/title"), root.findtext("channel/link"))
        print(open(args.opml).read())
    for bad in ("<a><b></a>", "", "<a>&nope;</a>"):
        try:
            ET.fromstring(bad)
        except ET.ParseError as e:
            print("bad:", e, e.code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
