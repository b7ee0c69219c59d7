"""Installs the packages of the Python runtime with pip, strips them to pure Python, and lists them.

The repository has two copies of the list: `set.json` for the host, and `docs/reference/packages.md` for people.
"""

import csv
import email
import json
import os
import pathlib
import shutil

SET = pathlib.Path(__file__).resolve().parent.parent / "packages"
DOCUMENT = SET.parent.parent.parent / "docs/reference/packages.md"
# The Linux platform is for packages without a portable wheel. Their native parts are removed, and the rest is portable.
TARGET = ["--python-version=3.14", "--implementation=cp", "--platform=any", "--platform=manylinux2014_x86_64", "--only-binary=:all:"]
# PyYAML's wrapper of its native part. Without that part, its import would fail with a misleading error.
EXCLUDED = ["_yaml"]
# Packages that are written here, in place of ones with native code.
OWN = SET / "own"
NATIVE = {".so", ".pyd", ".dll", ".dylib", ".c", ".h", ".pyx", ".pxd"}
# SPDX identifiers of licences that packages declare only by a classifier.
CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD-3-Clause",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}

HEAD = """# Python packages

Scripts can import these packages without installing anything. Guests see them, read-only, in
`/usr/lib/python3.14/site-packages`. Versions and hashes are pinned in `components/python/packages/requirements.txt`. All of
them are pure Python.

pydantic is not included: since 2.0 its core is native code, and 1.x does not support Python 3.14.
For the same reason, jsonschema is 4.17 and typer is 0.28. MarkupSafe and charset-normalizer run without their native parts.

psutil is skillhost's own: the common calls that read, with the figures of the run instead of those of a machine
([Python](python.md#the-run-as-a-machine)). It has nothing of psutil's code.

| package | version | licence | imports |
|---|---|---|---|
"""


def install(folder, pip, run):
    """Fills `folder/site`. `pip` is the pip command, and `run` runs a command."""
    site, wheels = folder / "site", folder / "wheels"
    # The Python that runs pip may be older than the one that runs the packages.
    strictly = ["--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-requires-python"]
    pure = ["--no-build-isolation", "--no-binary=:all:", "--require-hashes"]
    run(*pip, "wheel", *strictly, *pure, f"--wheel-dir={wheels}", "-r", SET / "sdists.txt")
    run(*pip, "install", *strictly, "--no-compile", f"--target={site}", *TARGET, "--require-hashes", "-r", SET / "requirements.txt")
    run(*pip, "install", *strictly, "--no-compile", f"--target={site}", "--no-index", *wheels.glob("*-none-any.whl"))
    shutil.rmtree(wheels)
    strip(site)
    for package in sorted(OWN.iterdir()):
        add_own(site, package)


def strip(site):
    for name in EXCLUDED:
        shutil.rmtree(site / name)
    for folder, folders, names in os.walk(site):
        for name in [name for name in folders if name in ("bin", "test", "tests", "_tests", "__pycache__")]:
            folders.remove(name)
            shutil.rmtree(os.path.join(folder, name))
        for name in names:
            path = pathlib.Path(folder, name)
            # Also removes files in which pip describes the build machine, and files that only type checkers and test runners read.
            if path.suffix in NATIVE or path.suffix == ".pyi" or name in ("direct_url.json", "REQUESTED", "conftest.py"):
                path.unlink()
    for record in site.glob("*.dist-info/RECORD"):
        with record.open(newline="") as file:
            kept = [row for row in csv.reader(file) if (site / row[0]).is_file()]
        with record.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(kept)


def add_own(site, package):
    """Adds a package of ours, with the metadata by which programs find its version."""
    metadata = email.message_from_string((package / "METADATA").read_text(encoding="utf-8"))
    shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("METADATA", "__pycache__"))
    info = site / f"{package.name}-{metadata['Version']}.dist-info"
    info.mkdir()
    shutil.copy(package / "METADATA", info)
    (info / "INSTALLER").write_text("skillhost\n")
    files = [*sorted(path.relative_to(site).as_posix() for path in (site / package.name).rglob("*.py")), f"{info.name}/METADATA"]
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def describe(site):
    """Returns the name, version, licence and importable modules of each distribution."""
    found = []
    for info in site.glob("*.dist-info"):
        metadata = email.message_from_string((info / "METADATA").read_text(encoding="utf-8"))
        with (info / "RECORD").open(newline="") as file:
            tops = {row[0].partition("/")[0] for row in csv.reader(file) if row[0].endswith(".py")}
        imports = sorted(top.removesuffix(".py") for top in tops)
        found.append({"name": metadata["Name"], "version": metadata["Version"], "licence": licence(metadata), "imports": imports})
    return sorted(found, key=lambda one: one["name"].lower())


def licence(metadata):
    named = [CLASSIFIERS[line] for line in metadata.get_all("Classifier", []) if line in CLASSIFIERS]
    return metadata["License-Expression"] or " OR ".join(named) or metadata["License"] or ""


def check_lists(found, bless):
    """Compares the lists in the repository with the packages. Returns an error message if they differ."""
    listed = [{key: one[key] for key in ("name", "version", "imports")} for one in found]
    rows = ["| {name} | {version} | {licence} | {names} |\n".format(**one, names=", ".join(f"`{i}`" for i in one["imports"])) for one in found]
    wanted = {
        SET / "set.json": "[\n" + ",\n".join("  " + json.dumps(one) for one in listed) + "\n]\n",
        DOCUMENT: HEAD + "".join(rows),
    }
    for path, text in wanted.items():
        if bless:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            return f"{path} differs from the packages that were built\n  fix: BLESS=1 cargo xtask python"
    return None
