"""Formats commits as a section of a changelog, and inserts the section into the file."""

import re

from commits import INTERNAL

HEADER = """# Changelog

All notable changes of this project. The format is that of [Keep a Changelog](https://keepachangelog.com/en/1.1.0/), the versions follow
[Semantic Versioning](https://semver.org/).
"""
SECTIONS = {"feat": "Added", "fix": "Fixed", "perf": "Faster", "security": "Security", "deprecate": "Deprecated", "revert": "Reverted"}
# The most important section first.
ORDER = ["Breaking changes", "Security", "Added", "Deprecated", "Fixed", "Faster", "Reverted", "Other", "Internal"]


def section(version, date, commits, repo=None, all=False):
    """Returns the section, or None if it has no entries."""
    entries = {}
    for commit in commits:
        if commit.breaking:
            entries.setdefault("Breaking changes", []).append(entry(commit, commit.breaking, repo))
            if commit.breaking == commit.subject:
                continue
        title = "Internal" if commit.kind in INTERNAL else SECTIONS.get(commit.kind, "Other")
        if title != "Internal" or (all and not commit.merge):
            entries.setdefault(title, []).append(entry(commit, commit.subject, repo))
    if not entries:
        return None
    lines = [f"## [{version}] - {date}" if date != "unreleased" else f"## [{version}]"]
    for title in sorted(entries, key=ORDER.index):
        # Sorted by scope, those without scope first; within a scope the newest first.
        listed = sorted(entries[title], key=lambda item: item[0].casefold())
        lines += ["", f"### {title}", "", *(text for _, text in listed)]
    return "\n".join(lines) + "\n"


def entry(commit, text, repo):
    # Names of files and functions keep their first letter.
    if text.split()[0].isalpha():
        text = text[:1].upper() + text[1:]
    text = text if text.endswith((".", "!", "?")) else text + "."
    scope = f"**{commit.scope}**: " if commit.scope else ""
    return commit.scope, f"- {scope}{text}{links(commit, repo)}"


def links(commit, repo) -> str:
    hashed = re.fullmatch(r"[0-9a-f]{7,40}", commit.id) is not None
    shown = []
    for number in commit.references:
        shown.append(f"[#{number}]({repo}/issues/{number})" if repo else f"#{number}")
    if hashed:
        shown.append(f"[{commit.id[:7]}]({repo}/commit/{commit.id})" if repo else commit.id[:7])
    return f" ({', '.join(shown)})" if shown else ""


def heading(version):
    return re.compile(rf"(?m)^## \[?{re.escape(version)}\]?(?: - .*)?$")


def has(text, version) -> bool:
    return heading(version).search(text) is not None


def insert(text, version, new) -> str:
    """Returns the file with the section, which replaces one of the same version or precedes the newest version."""
    if not text.strip():
        return f"{HEADER}\n{new}"
    here = heading(version).search(text)
    if here:
        following = re.compile(r"(?m)^## ").search(text, here.end())
        rest = text[following.start():] if following else ""
        return text[: here.start()] + new + ("\n" + rest if rest else "")
    newest = re.compile(r"(?m)^## (?!\[?Unreleased)").search(text)
    if newest:
        return f"{text[: newest.start()]}{new}\n{text[newest.start():]}"
    return f"{text.rstrip()}\n\n{new}"
