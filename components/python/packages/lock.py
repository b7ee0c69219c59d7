"""Pins what `requirements.in` asks for, and what that needs, in `requirements.txt`: one version and one hash each.

    python3 components/python/packages/lock.py

Resolved for CPython 3.14. Of each release the wheel for any machine is taken; where there is none, the one for Linux, whose native parts
are left out when it is unpacked. What has no wheel at all is pinned by hand in `sdists.txt`.
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
                anywhere = report(pip, *TARGET, "--platform=any", "--no-deps", f"{name}=={version}", missing=[(name, version, file)])
                ((_, _, file),) = anywhere
            lines.append(f"{name}=={version} \\\n    --hash=sha256:{file['archive_info']['hashes']['sha256']}\n")
    (HERE / "requirements.txt").write_text("# Written by lock.py from requirements.in.\n" + "".join(lines))


def report(pip, *what, missing=None):
    """(name, version, file) of each distribution that pip would install; `missing` if it would find none."""
    command = [pip, "install", "--dry-run", "--quiet", "--disable-pip-version-check", "--ignore-installed", "--report=-", *what]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if missing else None, check=False)
    if done.returncode:
        return missing or sys.exit("error: pip could not resolve the requirements; what it said is above")
    found = json.loads(done.stdout)["install"]
    return [(re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(), item["metadata"]["version"], item["download_info"]) for item in found]


if __name__ == "__main__":
    main()
