"""Performs the tests of the reference implementation of `sandboxd` over the wire, by their names, and drives
the Python SDK.

Usage: contract.py API ADDRESS SUITE. API is the URL of a run API without a token, ADDRESS its sandboxd
protocol, and SUITE a checkout of kubernetes-sigs/agent-sandbox. The tests of the reference are Go, and start
the daemon inside the test: here each one is the same requests to a sandbox of its own.
"""

import http.client
import json
import re
import sys
import time
import traceback
from datetime import datetime
from pathlib import Path

API, ADDRESS, SUITE = sys.argv[1], sys.argv[2], Path(sys.argv[3])
sys.path.insert(0, str(SUITE / "clients/python/agentic-sandbox-client"))

import grpc  # noqa: E402
from connect import Sandbox, Token  # noqa: E402
from google.protobuf import empty_pb2  # noqa: E402
from k8s_agent_sandbox.commands._process_stubs import process_pb2 as pb  # noqa: E402
from k8s_agent_sandbox.commands._process_stubs import process_pb2_grpc  # noqa: E402

Code = grpc.StatusCode

# Tests of the reference that have no counterpart here.
ELSEWHERE = {
    "TestNewServerEmptyRootDirError": "an option of the daemon",
    "TestHealthReadyAndShutdown": "flips a switch inside the daemon",
    "TestStartWithPTY": "programs have no terminal; Core does not require one",
    "TestResizeTTYWithPTY": "programs have no terminal; Core does not require one",
}

TESTS = {}


def test(function):
    TESTS["Test" + function.__name__] = function
    return function


class Client:
    """A sandbox, and both parts of the protocol."""

    def __init__(self):
        self.sandbox = Sandbox(API, ADDRESS, "place")
        channel = grpc.insecure_channel(ADDRESS)
        self.process = process_pb2_grpc.ProcessServiceStub(
            grpc.intercept_channel(channel, Token(self.sandbox.token)))

    def rest(self, method, path, body=b"", headers=None):
        connection = http.client.HTTPConnection(ADDRESS, timeout=60)
        connection.request(method, path, body, {"Authorization": f"Bearer {self.sandbox.token}", **(headers or {})})
        answer = connection.getresponse()
        return answer, answer.read()

    def status(self, method, path, body=b"", headers=None):
        return self.rest(method, path, body, headers)[0].status

    def error(self, method, path, body=b"", headers=None):
        answer, content = self.rest(method, path, body, headers)
        error = json.loads(content)
        assert error["message"], error
        return answer.status, error["code"]

    def listing(self, path=""):
        answer, content = self.rest("GET", f"/v1/files/{path}")
        equal((answer.status, answer.getheader("Content-Type")), (200, "application/json"))
        return json.loads(content)

    def execute(self, *command, **more):
        return self.process.Execute(pb.ExecuteRequest(config=pb.ProcessConfig(command=command, **more)), timeout=60)

    def start(self, *command):
        stream = self.process.Start(pb.StartRequest(config=pb.ProcessConfig(command=command)), timeout=60)
        first = next(stream)
        assert first.init.process_id > 0, first
        return stream, first.init.process_id

    def input(self, number, text):
        self.process.WriteStdin(pb.WriteStdinRequest(process_id=number, input=text), timeout=60)

    def signal(self, number, signal=pb.SIGNAL_UNSPECIFIED):
        self.process.SendSignal(pb.SendSignalRequest(process_id=number, signal=signal), timeout=60)


def equal(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


def code(act):
    try:
        act()
    except grpc.RpcError as error:
        return error.code()
    return None


def drain(stream):
    stdout, stderr, exit_code = b"", b"", None
    for event in stream:
        assert exit_code is None, "an event after the exit"
        stdout, stderr = stdout + event.stdout, stderr + event.stderr
        if event.HasField("exit"):
            exit_code = event.exit.exit_code
    assert exit_code is not None, "no exit event"
    return stdout, stderr, exit_code


@test
def SandboxdIntegration(c):
    equal(c.status("GET", "/v1/health"), 200)
    equal(c.status("PUT", "/v1/files/notes/hello.txt", b"hello from REST"), 204)
    ran = c.execute("cat", "notes/hello.txt")
    equal((ran.exit_code, ran.stdout), (0, b"hello from REST"))
    equal(c.rest("GET", "/v1/files/notes/hello.txt")[1], b"hello from REST")
    equal([entry["name"] for entry in c.listing("notes")["entries"]], ["hello.txt"])
    equal(c.status("DELETE", "/v1/files/notes/hello.txt"), 204)
    equal(c.status("GET", "/v1/files/notes/hello.txt"), 404)


@test
def ShutdownProcessesTerminatesChildren(c):
    stream, _ = c.start("sleep", "300")
    c.sandbox.end()
    assert drain(stream)[2] != 0


@test
def ExecuteEcho(c):
    ran = c.execute("echo", "hello")
    equal((ran.exit_code, ran.stdout, ran.stderr), (0, b"hello\n", b""))


@test
def ExecuteExitCode(c):
    equal(c.execute("sh", "-c", "exit 3").exit_code, 3)


@test
def ExecuteEnvAndCwd(c):
    c.execute("mkdir", "sub")
    ran = c.execute("sh", "-c", "echo $SANDBOX_TEST_VAR; pwd", env_vars={"SANDBOX_TEST_VAR": "sentinel"}, cwd="sub")
    lines = ran.stdout.decode().split()
    equal((lines[0], lines[1].endswith("/sub")), ("sentinel", True))


@test
def ExecuteMissingCommand(c):
    equal(code(lambda: c.execute()), Code.INVALID_ARGUMENT)


@test
def ExecuteCwdEscapeDenied(c):
    equal(code(lambda: c.execute("pwd", cwd="../..")), Code.PERMISSION_DENIED)


@test
def StartStreamsStdoutStderrAndExit(c):
    stream, _ = c.start("sh", "-c", "echo out; echo err 1>&2; exit 7")
    equal(drain(stream), (b"out\n", b"err\n", 7))


@test
def WriteStdinAndEOF(c):
    stream, number = c.start("cat")
    c.input(number, b"piped-through")
    c.process.WriteStdin(pb.WriteStdinRequest(process_id=number, eof=empty_pb2.Empty()), timeout=60)
    equal(drain(stream), (b"piped-through", b"", 0))


@test
def WriteStdinNotFound(c):
    equal(code(lambda: c.input(424242, b"x")), Code.NOT_FOUND)


@test
def SendSignalNotFound(c):
    equal(code(lambda: c.signal(424242, pb.SIGNAL_SIGTERM)), Code.NOT_FOUND)


@test
def SendSignalUnspecifiedRejected(c):
    stream, number = c.start("sleep", "30")
    equal(code(lambda: c.signal(number)), Code.INVALID_ARGUMENT)
    c.signal(number, pb.SIGNAL_SIGKILL)
    assert drain(stream)[2] != 0


@test
def SendSignalTerminatesProcess(c):
    stream, number = c.start("sleep", "30")
    began = time.monotonic()
    c.signal(number, pb.SIGNAL_SIGTERM)
    assert drain(stream)[2] != 0 and time.monotonic() - began < 10


@test
def ResizeTTYWithoutPTYFails(c):
    stream, number = c.start("sleep", "30")
    resize = pb.ResizeTTYRequest(process_id=number, cols=80, rows=24)
    equal(code(lambda: c.process.ResizeTTY(resize, timeout=60)), Code.FAILED_PRECONDITION)
    c.signal(number, pb.SIGNAL_SIGKILL)
    drain(stream)


@test
def PutThenGetFileRoundTrip(c):
    equal(c.status("PUT", "/v1/files/hello.txt", b"payload"), 204)
    equal(c.execute("cat", "hello.txt").stdout, b"payload")
    answer, content = c.rest("GET", "/v1/files/hello.txt")
    equal((answer.getheader("Content-Type"), content), ("application/octet-stream", b"payload"))


@test
def PutCreatesParentDirectories(c):
    equal(c.status("PUT", "/v1/files/a/b/c/deep.txt", b"x"), 204)
    equal(c.execute("test", "-f", "a/b/c/deep.txt").exit_code, 0)


@test
def PutAppliesMode(c):
    equal(c.status("PUT", "/v1/files/run.sh?mode=0755", b"#!/bin/sh"), 204)
    equal(c.execute("stat", "-c", "%a", "run.sh").stdout, b"755\n")


@test
def PutInvalidModeRejected(c):
    for mode in ["0999", "777", "abcd", "01777"]:
        equal(c.error("PUT", f"/v1/files/f.txt?mode={mode}", b"x"), (400, "INVALID_ARGUMENT"))


@test
def PutOverwritesAtomically(c):
    for text in [b"old", b"new"]:
        equal(c.status("PUT", "/v1/files/f.txt", text), 204)
    equal(c.execute("cat", "f.txt").stdout, b"new")
    equal(c.execute("ls", "-A").stdout, b"f.txt\n")


def form(name, text):
    body = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="upload.bin"\r\n\r\n{text}\r\n--B--\r\n'
    return body.encode(), {"Content-Type": "multipart/form-data; boundary=B"}


@test
def PutMultipartUpload(c):
    equal(c.status("PUT", "/v1/files/upload.bin", *form("file", "multipart-payload")), 204)
    equal(c.execute("cat", "upload.bin").stdout, b"multipart-payload")


@test
def PutMultipartMissingFilePart(c):
    equal(c.error("PUT", "/v1/files/f.txt", *form("notfile", "x")), (400, "INVALID_ARGUMENT"))


@test
def PutToDirectoryRejected(c):
    c.execute("mkdir", "d")
    equal(c.status("PUT", "/v1/files/d", b"x"), 400)


@test
def PutEncodedSlashesCreateNestedFile(c):
    equal(c.status("PUT", "/v1/files/dir%2Fsub%2Ffile.txt", b"x"), 204)
    equal(c.execute("test", "-f", "dir/sub/file.txt").exit_code, 0)


@test
def GetDirectoryListing(c):
    c.execute("sh", "-c", "printf bb > b.txt; chmod 600 b.txt; mkdir adir")
    listing = c.listing()
    assert listing["path"]
    folder, file = listing["entries"]
    equal((folder["name"], folder["type"]), ("adir", "directory"))
    equal((file["name"], file["type"], file["size"], file["mode"]), ("b.txt", "file", 2, "0600"))
    datetime.fromisoformat(file["modified_at"])


@test
def GetEmptyDirectoryListsEmptyEntries(c):
    equal(c.listing()["entries"], [])


@test
def GetMissingFileNotFound(c):
    equal(c.error("GET", "/v1/files/nope.txt"), (404, "NOT_FOUND"))


@test
def HeadFileExistenceProbe(c):
    c.rest("PUT", "/v1/files/f.txt", b"12345")
    answer, content = c.rest("HEAD", "/v1/files/f.txt")
    equal((answer.status, content), (200, b""))
    equal(c.status("HEAD", "/v1/files/absent.txt"), 404)


@test
def TraversalRejected(c):
    for method in ["GET", "PUT", "DELETE"]:
        equal(c.error(method, "/v1/files/%2E%2E/%2E%2E/etc/passwd", b"x"), (403, "PERMISSION_DENIED"))


@test
def SymlinkEscapeRejected(c):
    c.execute("ln", "-s", "/etc", "link")
    equal(c.status("GET", "/v1/files/link/passwd"), 403)


@test
def DeleteFile(c):
    c.rest("PUT", "/v1/files/f.txt", b"x")
    equal([c.status("DELETE", "/v1/files/f.txt") for _ in range(2)], [204, 404])


@test
def DeleteNonEmptyDirectoryConflict(c):
    c.rest("PUT", "/v1/files/d/f.txt", b"x")
    equal(c.error("DELETE", "/v1/files/d"), (409, "CONFLICT"))
    equal(c.status("DELETE", "/v1/files/d?recursive=true"), 204)
    equal(c.execute("test", "-e", "d").exit_code, 1)


@test
def DeleteRootDirectoryEmptiesContents(c):
    c.rest("PUT", "/v1/files/f.txt", b"x")
    equal(c.status("DELETE", "/v1/files/"), 409)
    equal(c.status("DELETE", "/v1/files/?recursive=true"), 204)
    equal(c.listing()["entries"], [])


@test
def DirectoryListingOmitsEscapingSymlinks(c):
    c.execute("ln", "-s", "/etc", "escaping_link")
    c.rest("PUT", "/v1/files/normal.txt", b"normal")
    equal([entry["name"] for entry in c.listing()["entries"]], ["normal.txt"])


@test
def DeleteInvalidRecursiveRejected(c):
    c.rest("PUT", "/v1/files/f.txt", b"x")
    equal(c.status("DELETE", "/v1/files/f.txt?recursive=banana"), 400)


@test
def MetadataFiltersEnv(c):
    # The server was started with SANDBOX_API_TOKEN and others.
    answer, content = c.rest("GET", "/v1/metadata")
    equal(answer.status, 200)
    equal(json.loads(content)["env"], {"SANDBOX_ID": c.sandbox.id, "SANDBOX_WORKSPACE": "/workspace"})


def sdk_files(c):
    files = c.sandbox.files
    files.write("dir/a b.txt", "text")
    equal((files.read("dir/a b.txt"), files.exists("dir/a b.txt"), files.exists("none")), (b"text", True, False))
    entry, = files.list("dir")
    equal((entry.name, entry.size, entry.type, entry.mode), ("a b.txt", 4, "file", "0644"))
    files.delete("dir", recursive=True)
    equal(files.list(""), [])


def sdk_commands(c):
    ran = c.sandbox.commands.run("echo out; echo err >&2; exit 5")
    equal((ran.stdout, ran.stderr, ran.exit_code), ("out\n", "err\n", 5))


def sdk_many_sandboxes(c):
    others = [Sandbox(API, ADDRESS, "place") for _ in range(5)]
    for number, other in enumerate(others):
        other.files.write("mine", str(number))
    for number, other in enumerate(others):
        equal(other.commands.run("cat mine; ls").stdout, f"{number}mine\n")
        other.end()
    equal(c.sandbox.files.list(""), [])


SDK = {"files": sdk_files, "commands": sdk_commands, "many sandboxes of one server": sdk_many_sandboxes}


def perform(name, act):
    """Returns whether it passed."""
    client = Client()
    try:
        act(client)
    except Exception as error:
        print(f"FAILED {name}: {error or traceback.format_exc()}")
        return False
    finally:
        client.sandbox.end()
    print(f"passed {name}")
    return True


def main():
    named = []
    for file in ["integration", "process", "filesystem"]:
        source = (SUITE / f"packages/sandboxd/pkg/server/{file}_test.go").read_text()
        named += [name for name in re.findall(r"^func (Test\w+)\(", source, re.M)]
    missing = set(named) - TESTS.keys() - ELSEWHERE.keys()
    passed = [perform(name, TESTS[name]) for name in named if name in TESTS]
    for name in named:
        if name in ELSEWHERE:
            print(f"left out {name}: {ELSEWHERE[name]}")
    passed += [perform(f"SDK: {name}", act) for name, act in SDK.items()]
    for name in missing:
        print(f"FAILED {name}: no such test here")
    print(f"{sum(passed)} of {len(passed) + len(missing)} passed, {len(ELSEWHERE)} left out")
    sys.exit(0 if all(passed) and not missing else 1)


if __name__ == "__main__":
    main()
