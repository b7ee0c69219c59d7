"""Serves the skills of a folder with agentskills-mcp-server, over HTTP. Arguments: the folder, the port."""

import asyncio
import sys
from pathlib import Path

from agentskills_core import Skill
from agentskills_fs import LocalFileSystemSkillProvider
from agentskills_mcp_server import create_mcp_server

folder, port = Path(sys.argv[1]), int(sys.argv[2])
provider = LocalFileSystemSkillProvider(folder)
names = sorted(entry.parent.name for entry in folder.glob("*/SKILL.md"))
server = asyncio.run(create_mcp_server([Skill(name, provider) for name in names], page_size=1))
server.run("streamable-http", host="127.0.0.1", port=port)
