"""Submits runs with a client that openapi-python-client has generated from the server's description.

Usage: client.py URL. The generated package `skillhost_client` is next to this file's copy.
"""

import hashlib
import io
import sys

from skillhost_client import Client
from skillhost_client.api.default import (
    cancel_run, get_blob, get_result, get_run, get_stdout, list_runs, put_blob, submit_run, wait_for_run,
)
from skillhost_client.models import (
    FileSource, Problem, ProblemCode, RunSubmission, RunSubmissionFiles, RunTargetType2, RunTargetType3, ToolCall,
)
from skillhost_client.types import File

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
checks = 0


def check(name, found, expected):
    global checks
    if found != expected:
        sys.exit(f"{name}: {found!r} instead of {expected!r}")
    checks += 1


def ended(run):
    while True:
        run = wait_for_run.sync(run.id, client=client, timeout=30)
        if run.ended:
            return get_result.sync(run.id, client=client)


run = submit_run.sync(client=client, body=RunSubmission(skill="calculator", args=["6 * 7"]), idempotency_key="one")
result = ended(run)
check("exit code", result.run.exit_code, 0)
check("stdout", result.outcome.stdout, "42\n")
check("stdout as bytes", get_stdout.sync_detailed(run.id, client=client).content, b"42\n")
check("status", str(get_run.sync(run.id, client=client).status), "succeeded")
again = submit_run.sync(client=client, body=RunSubmission(skill="calculator", args=["6 * 7"]), idempotency_key="one")
check("the same key", again.id, run.id)
conflict = submit_run.sync(client=client, body=RunSubmission(skill="calculator", args=["1"]), idempotency_key="one")
check("another run with the key", conflict.code, ProblemCode.KEY_CONFLICT)

tool = RunTargetType2(tool=ToolCall(name="calculate", input_={"expression": "2^10"}))
result = ended(submit_run.sync(client=client, body=RunSubmission(skill="calculator", target=tool)))
check("tool", result.run.exit_code, 0)

content = b"a,b\n1,2\n"
digest = "sha256:" + hashlib.sha256(content).hexdigest()
blob = put_blob.sync(digest, client=client, body=File(payload=io.BytesIO(content)))
check("blob", (blob.digest, blob.bytes_), (digest, len(content)))
files = RunSubmissionFiles()
files["in.csv"] = FileSource(digest=digest)
command = RunTargetType3(command="wc -l < in.csv && echo new > out.txt")
result = ended(submit_run.sync(client=client, body=RunSubmission(skill="changelog", target=command, files=files)))
check("command", (result.run.exit_code, result.outcome.stdout.strip()), (0, "2"))
check("changes", [change.path for change in result.changes], ["out.txt"])
written = get_blob.sync_detailed(result.changes[0].after.digest, client=client).content
check("written file", written, b"new\n")

check("runs", len(list_runs.sync(client=client, limit=2).runs), 2)
check("an ended run", cancel_run.sync(run.id, client=client).id, run.id)
missing = submit_run.sync(client=client, body=RunSubmission(skill="no-such-skill"))
check("no skill", (isinstance(missing, Problem), missing.code), (True, ProblemCode.NO_SKILL))
print(f"{checks} checks passed")
