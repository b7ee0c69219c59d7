"""Fetches CPython's tests, which Debian packages beside each CPython. They are kept in `target/`, and are no part of this repository."""

import hashlib
import pathlib
import shutil
import subprocess
import sys

# The nearest to the runtime's 3.14.0 that Debian still has: version -> package -> SHA-256. The tests lie in the first, their support
# among the library of the second.
PINNED = {
    "3.14.8-1": {
        "libpython3.14-testsuite": "072cc5c4b9468efdc60deceece230c7009bf65e2638a104597202eb32673135f",
        "libpython3.14-stdlib": "abfa1b45e311461a4f8ee110d203efbc18808fada340af7036235b0d0c4cfd9a",
    },
    "3.14.10-1": {
        "libpython3.14-testsuite": "137b55a9b0794801a0226a8220c7c224e9e5e3a9d1261bd62573a87a6ad8bf31",
        "libpython3.14-stdlib": "0af595928d7a49c12fe33d5667da95dc2fa9868e1a9a00625428074d3b3d458a",
    },
}
SUITES = ["forky", "sid"]
HELP = "\n  fix: on a machine without these packages, name a folder with CPython's `test` package: --testsuite DIR"


def fetch(folder):
    """(version, folder with the package `test`)"""
    for version in PINNED:
        if (folder / version / "done").is_file():
            return version, folder / version
    for program in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(program) is None:
            sys.exit(f"error: CPython's tests come in Debian packages, and {program} is not installed{HELP}")
    apt = private_apt(folder / "apt")
    for version, packages in PINNED.items():
        made = folder / version
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        wanted = [f"{package}={version}" for package in packages]
        if subprocess.run(["apt-get", *apt, "download", *wanted], cwd=made, capture_output=True, check=False).returncode == 0:
            unpack(made, packages)
            return version, made
    sys.exit(f"error: Debian has none of {', '.join(PINNED)} any more{HELP}, and pin a newer version in {pathlib.Path(__file__).name}")


def private_apt(state):
    """Options by which apt looks at other suites of the mirror that it uses, and leaves the machine's own lists alone."""
    sites = run("apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(COMPONENT)", "Created-By: Packages").split()
    uris = [site.split("|")[0] for site in sites if site.split("|")[1:] == ["Debian", "main"] and "security" not in site]
    if not uris:
        sys.exit(f"error: apt has no list of a Debian mirror\n  fix: `apt-get update`, on Debian{HELP}")
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text("".join(f"deb {uris[0]} {suite} main\n" for suite in SUITES))
    places = {"Dir::Etc::sourcelist": "sources.list", "Dir::State::lists": "lists", "Dir::Cache": "cache"}
    options = ["-oAPT::Architecture=amd64", "-oAPT::Architectures=amd64", "-oDir::Etc::sourceparts=-"]
    options += [f"-o{key}={state / name}" for key, name in places.items()]
    print("reading Debian's lists of packages ...", file=sys.stderr, flush=True)
    run("apt-get", *options, "-qq", "update")
    return options


def unpack(folder, packages):
    for package, wanted in packages.items():
        (file,) = folder.glob(f"{package}_*.deb")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != wanted:
            sys.exit(f"error: {file.name} has the SHA-256 {digest}, and {wanted} is pinned")
        run("dpkg-deb", "-x", file, folder / "unpacked")
        file.unlink()
    (folder / "unpacked/usr/lib/python3.14/test").rename(folder / "test")
    shutil.rmtree(folder / "unpacked")
    (folder / "done").touch()


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: `{' '.join(map(str, command))}` failed; its output is above")
    return done.stdout
