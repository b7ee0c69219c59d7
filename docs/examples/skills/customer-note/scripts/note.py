import subprocess
import sys

found = subprocess.run(["lookup-customer", sys.argv[1]], capture_output=True, text=True)
if found.returncode != 0:
    sys.exit(f"no note: {found.stderr.strip()}")
print(f"Dear {found.stdout.strip()},")
