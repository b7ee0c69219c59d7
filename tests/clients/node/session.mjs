// An agent's session with the official TypeScript client: prints each step as a line of JSON.
//
// Arguments: the folder of the client's packages, the mode (`legacy` or `auto`), then the server's command, or `--url URL TOKEN`.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, mode, ...server] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(join(packages, 'package.json')).resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
const { SkillsClient } = await load('@modelcontextprotocol/client/ext/skills');

const tell = (step, what) => console.log(JSON.stringify({ step, ...what }));
const text = (result) => result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
const transport =
    server[0] === '--url'
        ? new StreamableHTTPClientTransport(new URL(server[1]), { requestInit: { headers: { Authorization: `Bearer ${server[2]}` } } })
        : new StdioClientTransport({ command: server[0], args: server.slice(1), env: process.env });

const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
await client.connect(transport);
const call = (name, args) => client.callTool({ name, arguments: args });
const names = async () => (await client.listTools()).tools.map((tool) => tool.name);

tell('tools', { names: await names() });
tell('discover', { text: text(await call('discover_skills', { query: 'a scribe' })) });
tell('activate', { text: text(await call('activate_skill', { name: 'scribe' })) });
tell('read', { text: text(await call('read_skill_file', { name: 'scribe', path: 'references/guide.md', range: '1-2' })) });
const run = await call('run_skill', { name: 'scribe', program: 'scripts/note.sh', args: ['x'], stdin: 'in\n' });
tell('run', { is_error: run.isError, output: run.structuredContent });
await call('activate_skill', { name: 'calculator' });
tell('tools', { names: await names() });
const sum = await call('calculator.calculate', { expression: '2^64 + 1' });
tell('tool', { is_error: sum.isError, output: sum.structuredContent });
const refused = await call('run_skill', { name: 'scribe', program: 'scripts/write.sh' });
tell('refused', { is_error: refused.isError, text: text(refused), denials: refused.structuredContent.denials });

// The client compares sizes, digests and frontmatter, and fails if they differ.
if (mode === 'auto') {
    const skills = new SkillsClient(client);
    const listing = await skills.list();
    const verified = [];
    for (const skill of listing.skills) {
        for (const file of skill.resources) {
            const read = await skills.read(skill, file.uri);
            if (!read.verified) throw new Error(`${file.uri} is not verified`);
            verified.push(read.uri);
        }
    }
    const { resources } = await skills.readDirectory('skill://scribe/scripts');
    tell('skills', { invalid: listing.invalid, verified, directory: resources.map((child) => child.uri) });
}
await client.close();
