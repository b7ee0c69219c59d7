"""`python3 -m pip`, `venv` and `ensurepip`. A sandbox cannot install anything, but a script that ensures its packages can continue if they
are available.
"""

import importlib.metadata
import os
import re
import sys

from . import missing

USAGE = """usage: python3 -m pip install | list | freeze | show | check ...
This is the pip of a sandbox: it installs nothing, and reports whether packages are available."""

# Options of `pip install` that take a value.
WITH_VALUE = set(
    """-c --constraint -e --editable -t --target -i --index-url --extra-index-url -f --find-links --platform --python-version
    --implementation --abi --root --prefix --src --upgrade-strategy --config-settings -C --global-option --no-binary --only-binary
    --progress-bar --report --proxy --retries --timeout --trusted-host --cert --client-cert --cache-dir --log --python""".split()
)
# Distributions whose name differs from that of their module.
MODULES = {
    "pillow": "PIL", "opencv-python": "cv2", "opencv-python-headless": "cv2", "scikit-learn": "sklearn", "psycopg2-binary": "psycopg2",
}  # fmt: skip


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(arguments):
    words = [word for word in arguments if not word.startswith("-")]
    if "--version" in arguments or "-V" in arguments:
        print(f"pip 0 (of the sandbox, without installation) (python {sys.version_info[0]}.{sys.version_info[1]})")
        return 0
    if not words or {"-h", "--help"} & set(arguments) or words[0] == "help":
        print(USAGE)
        return 0
    verb = words[0]
    rest = arguments[arguments.index(verb) + 1 :]
    verbs = {"install": install, "list": show_all, "freeze": freeze, "show": show, "check": check}
    if verb not in verbs:
        return fail(f"pip {verb} is not available in a sandbox")
    return verbs[verb](rest)


def check(arguments):
    print("No broken requirements found.")
    return 0


def fail(why):
    print(f"ERROR: {why}", file=sys.stderr)
    return 1


def install(arguments):
    wanted, quiet = [], False
    words = iter(arguments)
    for word in words:
        if word in ("-r", "--requirement") or word.startswith("--requirement="):
            path = word.partition("=")[2] or next(words, "")
            try:
                wanted += requirements(path)
            except OSError as error:
                return fail(f"Could not open requirements file: [Errno {error.errno}] {error.strerror}: {path!r}")
        elif word in ("-e", "--editable"):
            wanted.append(next(words, "."))
        elif word in WITH_VALUE:
            next(words, None)
        elif word.startswith("-"):
            quiet = quiet or word in ("-q", "-qq", "--quiet")
        else:
            wanted.append(word)
    if not wanted:
        return fail('You must give at least one requirement to install (see "pip help install")')
    problems = []
    for requirement in wanted:
        problem, there = judge(requirement)
        if problem:
            problems.append(problem)
        elif there and not quiet:
            where = f"in {os.path.dirname(there._path)} ({there.version})"
            print(f"Requirement already satisfied: {requirement} {where}: part of the sandbox's packages")
    for problem in problems:
        fail(problem)
    return 1 if problems else 0


def requirements(path):
    """Returns the requirements of a file, including those of the files that it references."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        option, _, value = line.partition(" ")
        if option in ("-r", "--requirement"):
            found += requirements(os.path.join(os.path.dirname(path), value.strip()))
        elif option in ("-e", "--editable"):
            found.append(value.strip())
        elif line and not line.startswith("-"):
            found.append(re.sub(r"\s+--hash=.*", "", line))
    return found


def judge(requirement):
    """Returns (why a requirement cannot be met, the available distribution)."""
    match = re.fullmatch(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*([^;@]*?)\s*(?:;\s*(.*))?", requirement)
    if match is None or os.sep in requirement or requirement in (".", ".."):
        return f"{requirement} cannot be installed: a sandbox cannot install packages; modules of a skill are imported from its folder", None
    name, versions, marker = match.groups()
    if marker and not applies(marker):
        return None, None
    try:
        there = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        why = missing.WHY.get(MODULES.get(normal(name), name.replace("-", "_")))
        return f"{name} cannot be installed: a sandbox cannot install packages, and {why or f'{name} is not in its package set'}", None
    if not fits(there.version, versions.strip("() ")):
        return f"{name} {versions} cannot be installed: a sandbox cannot install packages, and its package set has {there.version}", None
    return None, there


def applies(marker):
    try:
        from packaging.markers import Marker
    except ImportError:
        # Without the package that evaluates markers, they are assumed to apply.
        return True
    return Marker(marker).evaluate()


def fits(version, asked):
    """Checks a version by PEP 440, with `packaging` if it is available, otherwise by its numbers only."""
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        wanted = [re.fullmatch(r"\s*(===|[=!<>~]=|[<>])\s*(\S+)\s*", one) for one in asked.split(",") if one]
        return all(one is not None and compare(numbers(version), *one.groups()) for one in wanted)
    return SpecifierSet(asked).contains(version, prereleases=True)


def numbers(version):
    return [int(number) for number in re.findall(r"\d+", re.match(r"[\d.]*", version)[0])]


def compare(have, operator, asked):
    want = numbers(asked)
    if operator in ("==", "===", "!="):
        same = have[: len(want)] == want if asked.endswith(".*") else padded(have, want) == padded(want, have)
        return same != (operator == "!=")
    if operator == "~=":
        return padded(have, want) >= padded(want, have) and have[: len(want) - 1] == want[:-1]
    left, right = padded(have, want), padded(want, have)
    return {">=": left >= right, "<=": left <= right, ">": left > right, "<": left < right}[operator]


def padded(one, other):
    return one + [0] * (len(other) - len(one))


def distributions():
    return sorted(importlib.metadata.distributions(), key=lambda one: normal(one.name))


def show_all(arguments):
    if "--format=json" in arguments or "json" in arguments:
        import json

        print(json.dumps([{"name": one.name, "version": one.version} for one in distributions()]))
        return 0
    rows = [("Package", "Version"), *((one.name, one.version) for one in distributions())]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for row in [rows[0], tuple("-" * width for width in widths), *rows[1:]]:
        print(f"{row[0]:<{widths[0]}} {row[1]}")
    return 0


def freeze(arguments):
    for one in distributions():
        print(f"{one.name}=={one.version}")
    return 0


def show(arguments):
    code = 1
    for name in arguments:
        if name.startswith("-"):
            continue
        try:
            one = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"WARNING: Package(s) not found: {name}", file=sys.stderr)
            continue
        about = one.metadata
        print(f"Name: {one.name}\nVersion: {one.version}\nSummary: {about.get('Summary', '')}\nLocation: {os.path.dirname(one._path)}")
        code = 0
    return code


def venv(arguments):
    return fail("a sandbox has no virtual environments: use python3 directly. `python3 -m pip list` lists the packages")


def ensurepip(arguments):
    print("pip is available, but cannot install anything in a sandbox")
    return 0


# The programs of `python3 -m NAME`.
PROGRAMS = {"pip": pip, "venv": venv, "virtualenv": venv, "ensurepip": ensurepip}
