"""A stand-in for an agent's client, without a model: reviews a change with a skill, as its home folder says.

Connects to the MCP server of ~/.claude.json, activates the skill and runs its script. Then it wants to run the same script by a
shell command, which it shows to the hook of ~/.claude/settings.json first.
"""

import json
import os
import subprocess
import sys

SKILL, PROGRAM, CHANGE = "code-review", "scripts/review.py", "change.diff"


def read(path):
    with open(os.path.expanduser(path)) as file:
        return json.load(file)


class Server:
    def __init__(self):
        entry = read("~/.claude.json")["mcpServers"]["skillhost"]
        # Clients pass few variables on.
        variables = {name: os.environ[name] for name in ["HOME", "PATH"]}
        line = [entry["command"], *entry["args"]]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables)
        self.sent = 0
        client = {"name": "stand-in", "version": "1"}
        self.request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method, **params):
        self.sent += 1
        self.send({"id": self.sent, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self.sent and "method" not in message:
                return message["result"]
        sys.exit("the server is gone")

    def call(self, tool, **arguments):
        result = self.request("tools/call", name=tool, arguments=arguments)
        text = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        return result.get("isError", False), text

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def hook(command):
    """Returns the decision on a shell command, and the command to run."""
    group = read("~/.claude/settings.json")["hooks"]["PreToolUse"][0]
    assert "Bash" in group["matcher"].split("|")
    entry = group["hooks"][0]
    assert entry["onFailure"] == "block"
    event = {"hook_event_name": "PreToolUse", "cwd": os.getcwd(), "tool_name": "Bash", "tool_input": {"command": command}}
    variables = {**os.environ, "CLAUDE_PID": str(os.getpid())}
    line = [entry["command"], *entry["args"]]
    ended = subprocess.run(line, input=json.dumps(event), capture_output=True, text=True, env=variables, timeout=entry["timeout"])
    assert ended.returncode == 0, ended
    answer = json.loads(ended.stdout)["hookSpecificOutput"]
    return answer["permissionDecision"], answer["updatedInput"]["command"]


def main():
    server = Server()
    found = server.call("discover_skills", category="all")[1]
    print("skills:", sorted(word for word in ["code-review", "drafts"] if word in found))
    server.call("activate_skill", name=SKILL)
    failed, result = server.call("run_skill", name=SKILL, program=PROGRAM, args=[CHANGE])
    server.close()
    print("run_skill:", "error" if failed else "ok", result)
    decision, line = hook(f"python3 ~/.claude/skills/{SKILL}/{PROGRAM} {CHANGE}")
    print("hook:", decision)
    if decision == "allow":
        print(subprocess.run(["bash", "-c", line], capture_output=True, text=True).stdout, end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
