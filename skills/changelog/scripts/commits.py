"""Parses the output of `git log`, and determines the next version."""

import re
from dataclasses import dataclass, field

HEAD = re.compile(r"(?P<kind>[a-zA-Z]+)(?:\((?P<scope>[^)]+)\))?(?P<breaking>!)?:\s+(?P<subject>.+)")
BREAKING = re.compile(r"^BREAKING[ -]CHANGE:\s*(.+?)(?=\n\n|\n[A-Z][\w-]+:\s|\Z)", re.MULTILINE | re.DOTALL)
REFERENCE = re.compile(r"(?:^|[\s(])(?:[\w.-]+/[\w.-]+)?#(\d+)\b")
REVERTS = re.compile(r"This reverts commit ([0-9a-f]{7,40})")
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+][0-9A-Za-z.+-]+)?")
# The kinds of commits that affect users of the project.
NOTICED = {"feat", "fix", "perf", "security", "deprecate", "revert"}
INTERNAL = {"docs", "refactor", "test", "tests", "build", "ci", "chore", "style"}


@dataclass
class Commit:
    id: str
    subject: str
    body: str = ""
    # None if the subject is not that of a conventional commit.
    kind: str = None
    scope: str = ""
    # The description of the breaking change; the subject by default.
    breaking: str = ""
    references: list = field(default_factory=list)
    merge: bool = False


def parse(log) -> list:
    """Returns the commits in the order of the log, the newest first."""
    found = []
    for block in re.split(r"(?m)^commit (?=\S+(?: \(.*\))?$)", log)[1:]:
        head, _, message = block.partition("\n\n")
        lines = [line[4:] if line.startswith("    ") else line.strip() for line in message.rstrip().splitlines()]
        subject, _, body = "\n".join(lines).partition("\n")
        found.append(read(head.split()[0], subject.strip(), body.strip(), merge="\nMerge:" in head))
    return found


def read(id, subject, body, merge=False) -> Commit:
    commit = Commit(id, subject, body, merge=merge or subject.startswith("Merge "))
    match = HEAD.fullmatch(subject)
    if match and match["kind"].lower() in NOTICED | INTERNAL:
        commit.kind, commit.scope, commit.subject = match["kind"].lower(), match["scope"] or "", match["subject"]
    elif commit.merge:
        commit.kind = "chore"
    elif subject.startswith("Revert "):
        commit.kind, commit.subject = "revert", subject[len("Revert "):].strip('"')
    footer = BREAKING.search(body)
    if footer:
        commit.breaking = " ".join(footer[1].split())
    elif match and match["breaking"]:
        commit.breaking = commit.subject
    # In the order of the text, without duplicates.
    commit.references = list(dict.fromkeys(REFERENCE.findall(commit.subject + "\n" + body)))
    commit.subject = re.sub(r"\s*\(#\d+\)$", "", commit.subject)
    return commit


def without_reverted(found) -> list:
    """Drops commits that are reverted in the same log, and their reverts."""
    gone = set()
    for commit in found:
        reverts = REVERTS.search(commit.body)
        target = next((other for other in found if reverts and other.id.startswith(reverts[1][:40])), None)
        if target and commit.id not in gone:
            gone |= {commit.id, target.id}
    return [commit for commit in found if commit.id not in gone]


def next_version(after, found):
    """Returns the next version, or None if no commit requires a release."""
    major, minor, patch = (int(number) for number in VERSION.fullmatch(after).groups())
    if any(commit.breaking for commit in found):
        return f"{major + 1}.0.0" if major else f"0.{minor + 1}.0"
    if any(commit.kind == "feat" for commit in found):
        return f"{major}.{minor + 1}.0" if major else f"0.{minor}.{patch + 1}"
    if any(commit.kind is None or commit.kind in NOTICED for commit in found):
        return f"{major}.{minor}.{patch + 1}"
    return None
