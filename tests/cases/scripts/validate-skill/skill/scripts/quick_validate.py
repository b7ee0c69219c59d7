#!/usr/bin/env python3
"""
Quick validation script for skills - minimal version
"""

import os
import re
import sys
from pathlib import Path

ALLOWED = {"name", "description", "license", "allowed-tools", "metadata", "compatibility"}


def parse_frontmatter(text):
    """Top-level keys of the frontmatter, without a YAML library."""
    match = re.match(r"^---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", text, re.DOTALL)
    if not match:
        raise ValueError("No YAML frontmatter found")
    fields = {}
    for line in match.group(1).splitlines():
        if not line or line[0] in " \t#":
            continue
        key, sep, value = line.partition(":")
        if not sep:
            raise ValueError(f"Not a field: {line!r}")
        fields[key.strip()] = value.strip().strip("\"'")
    return fields


def validate_skill(skill_path):
    """Basic validation of a skill"""
    skill_path = Path(skill_path)
    skill_md = skill_path / "SKILL.md"
    if not skill_md.exists():
        return False, ["SKILL.md not found"]
    with open(skill_md, newline="") as f:
        content = f.read()
    try:
        fields = parse_frontmatter(content)
    except ValueError as e:
        return False, [str(e)]

    problems = []
    for key in sorted(set(fields) - ALLOWED):
        problems.append(f"Unexpected key in frontmatter: {key}")
    name = fields.get("name", "")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        problems.append(f"Name '{name}' should be hyphen-case (lowercase letters, digits, and hyphens only)")
    if name != skill_path.resolve().name:
        problems.append(f"Name '{name}' is not the folder's ('{skill_path.resolve().name}')")
    description = fields.get("description")
    if not description:
        problems.append("Missing 'description'")
    elif "<" in description or ">" in description:
        problems.append("Description cannot contain angle brackets (< or >)")
    if "\r" in content:
        problems.append("Line endings are CRLF")
    return not problems, problems


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("Usage: python quick_validate.py <skill_directory>...")
        sys.exit(64)

    all_valid = True
    for path in sys.argv[1:]:
        valid, problems = validate_skill(path)
        all_valid &= valid
        print(f"{'✅' if valid else '❌'} {path}{os.sep}")
        for problem in problems:
            print(f"   • {problem}")
    sys.exit(0 if all_valid else 1)
