import os
import subprocess as sp
import sys
from subprocess import check_output

sp.run(["git", "log", "-1"], check=True)
sp.run([sys.executable, "-m", "json.tool"])
check_output(["git", "push"])


def media(path):
    cmd = ["ffmpeg", "-i", path]
    sp.Popen(cmd)
    os.system("soffice --headless " + path)
    sp.run(f"docker run {path} | jq .", shell=True)
    sp.run(["jq", ".", path])
