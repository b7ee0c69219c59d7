#!/usr/bin/env python3
"""
Skill Packager - Creates a distributable .skill file of a skill folder

Usage:
    python package_skill.py <path/to/skill-folder> [output-directory]
"""

import hashlib
import io
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rules import EXCLUDED_NAMES, should_exclude  # noqa: E402

# So that the same skill is the same archive.
WHEN = (1980, 1, 1, 0, 0, 0)


def package(skill: Path, out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"{skill.name}.skill"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(skill.rglob("*")):
            arcname = path.relative_to(skill.parent)
            if path.is_dir():
                continue
            if should_exclude(arcname):
                print(f"  Skipped: {arcname}")
                continue
            info = zipfile.ZipInfo(str(arcname), WHEN)
            info.external_attr = 0o644 << 16
            archive.writestr(info, path.read_bytes())
            print(f"  Added: {arcname}")
    return target


def show(target: Path):
    with zipfile.ZipFile(io.BytesIO(target.read_bytes())) as archive:
        bad = archive.testzip()
        assert bad is None, bad
        for info in archive.infolist():
            print(f"{info.CRC:08x} {info.file_size:>5} {info.filename}")
        print(archive.read("my-skill/scripts/hello.py").decode(), end="")
        extracted = Path("extracted")
        archive.extractall(extracted)
    for path in sorted(extracted.rglob("*")):
        print(path, "dir" if path.is_dir() else path.stat().st_size)


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip())
        sys.exit(1)
    skill = Path(sys.argv[1]).resolve()
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else Path.cwd()
    print(f"📦 Packaging skill: {skill}")
    print(f"   Excluding: {', '.join(sorted(EXCLUDED_NAMES))}")
    if not (skill / "SKILL.md").is_file():
        print("❌ Error: SKILL.md not found")
        sys.exit(1)
    target = package(skill, out)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"\n✅ {target} ({target.stat().st_size} bytes, {digest[:16]})")
    show(target)


if __name__ == "__main__":
    main()
