"""An agent's session, by the official Python client: each step as a line of JSON.

Arguments: the mode (`legacy` or `auto`), `--only` for no more than a run that writes, then the server's command, or `--url URL TOKEN`.
"""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult


def tell(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def transport(arguments):
    if arguments[0] != "--url":
        # By default the client passes only some variables, and so not the cache of compiled runtimes.
        return stdio_client(StdioServerParameters(command=arguments[0], args=arguments[1:], env=dict(os.environ)))
    import httpx2

    return streamable_http_client(arguments[1], http_client=httpx2.AsyncClient(headers={"Authorization": f"Bearer {arguments[2]}"}, timeout=60))


async def write(client):
    await client.call_tool("activate_skill", {"name": "writer"})
    approved = await client.call_tool("run_skill", {"name": "writer", "program": "scripts/write.sh", "stdin": "kept\n"})
    tell("approved", is_error=approved.is_error, text=text(approved))


async def main(mode, arguments):
    seen = []
    only = arguments[0] == "--only"
    arguments = arguments[only:]

    async def progress(value, total, message):
        seen.append(value)

    async def asked(context, params):
        tell("asked", text=params.message)
        # Each form has one question: whether to allow the run, or whether to apply its writes.
        content = {"write": "yes"} if "write" in params.requested_schema["properties"] else {"allow": "once"}
        return ElicitResult(action="accept", content=content)

    async with Client(transport(arguments), mode=mode, elicitation_callback=asked) as client:
        tell("connected", version=client.protocol_version)
        if only:
            return await write(client)
        tools = await client.list_tools()
        tell("tools", names=[tool.name for tool in tools.tools])
        found = await client.call_tool("discover_skills", {"query": "a scribe"})
        tell("discover", text=text(found))
        activated = await client.call_tool("activate_skill", {"name": "scribe"})
        tell("activate", text=text(activated))
        read = await client.call_tool("read_skill_file", {"name": "scribe", "path": "references/guide.md", "range": "1-2"})
        tell("read", text=text(read))
        run = await client.call_tool(
            "run_skill", {"name": "scribe", "program": "scripts/note.sh", "args": ["x"], "stdin": "in\n"}, progress_callback=progress
        )
        tell("run", is_error=run.is_error, output=run.structured_content, progress=len(seen))
        await client.call_tool("activate_skill", {"name": "calculator"})
        tools = await client.list_tools()
        tell("tools", names=[tool.name for tool in tools.tools])
        sum_ = await client.call_tool("calculator.calculate", {"expression": "2^64 + 1"})
        tell("tool", is_error=sum_.is_error, output=sum_.structured_content)
        refused = await client.call_tool("run_skill", {"name": "scribe", "program": "scripts/write.sh"})
        tell("refused", is_error=refused.is_error, text=text(refused), denials=refused.structured_content["denials"])
        await write(client)
        resource = await client.read_resource("skill://scribe/SKILL.md")
        tell("resource", text=resource.contents[0].text)
        prompt = await client.get_prompt("scribe", {"request": "Please."})
        tell("prompt", text=prompt.messages[0].content.text)


asyncio.run(main(sys.argv[1], sys.argv[2:]))
