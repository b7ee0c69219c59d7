"""Pins the packages of `requirements.in` and their dependencies in `requirements.txt`, each with one version and one hash.

    python3 components/python/packages/lock.py

The packages are resolved for CPython 3.14. The script selects the portable wheel of each release, or else the one for Linux, whose native
parts are removed after installation. Packages without any wheel are pinned by hand in `sdists.txt`.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
TARGET = ["--only-binary=:all:", "--python-version=3.14", "--implementation=cp", "--target=unused"]
LINUX = ["--platform=manylinux2014_x86_64", "--platform=manylinux_2_17_x86_64"]


def main():
    wanted = [line for line in (HERE / "requirements.in").read_text().splitlines() if line and not line.startswith("#")]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        pip = pathlib.Path(folder) / "bin/pip"
        subprocess.run([pip, "install", "--quiet", "--upgrade", "pip"], check=True)
        resolved = report(pip, *TARGET, "--platform=any", *LINUX, *wanted)
        lines = []
        for name, version, file in sorted(resolved):
            if not file["url"].endswith("-none-any.whl"):
                portable = report(pip, *TARGET, "--platform=any", "--no-deps", f"{name}=={version}", missing=[(name, version, file)])
                ((_, _, file),) = portable
            lines.append(f"{name}=={version} \\\n    --hash=sha256:{file['archive_info']['hashes']['sha256']}\n")
    (HERE / "requirements.txt").write_text("# Written by lock.py from requirements.in.\n" + "".join(lines))


def report(pip, *arguments, missing=None):
    """Returns (name, version, file) of each distribution that pip would install, or `missing` if pip fails."""
    command = [pip, "install", "--dry-run", "--quiet", "--disable-pip-version-check", "--ignore-installed", "--report=-", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if missing else None, check=False)
    if done.returncode:
        return missing or sys.exit("error: pip could not resolve the requirements; its output is above")
    found = json.loads(done.stdout)["install"]
    return [(re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(), item["metadata"]["version"], item["download_info"]) for item in found]


if __name__ == "__main__":
    main()
