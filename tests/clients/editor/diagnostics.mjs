// What the YAML language server, which editors use, reports about files: each file as a line of JSON.
//
// Arguments: the folder of the server's packages, then the files.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packages, ...files] = process.argv.slice(2);
const program = join(packages, 'node_modules/yaml-language-server/bin/yaml-language-server');
const server = spawn(process.execPath, [program, '--stdio'], { stdio: ['pipe', 'pipe', 'ignore'] });
const send = (message) => {
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
    server.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    server.stdin.write(body);
};

const open = () => {
    send({ method: 'initialized', params: {} });
    for (const file of files) {
        const textDocument = { uri: pathToFileURL(file).href, languageId: 'yaml', version: 1, text: readFileSync(file, 'utf8') };
        send({ method: 'textDocument/didOpen', params: { textDocument } });
    }
};

const waiting = new Map(files.map((file) => [pathToFileURL(file).href, file]));
const receive = (message) => {
    if (message.id === 1 && !message.method) {
        open();
    } else if (message.method && message.id !== undefined) {
        // It asks for settings, of which there are none.
        send({ id: message.id, result: (message.params?.items ?? []).map(() => ({})) });
    } else if (message.method === 'textDocument/publishDiagnostics' && waiting.has(message.params.uri)) {
        const found = message.params.diagnostics.map(({ range, message }) => ({ line: range.start.line + 1, message }));
        console.log(JSON.stringify({ file: waiting.get(message.params.uri), found }));
        waiting.delete(message.params.uri);
        if (waiting.size === 0) server.kill();
    }
};

let buffer = Buffer.alloc(0);
server.stdout.on('data', (data) => {
    buffer = Buffer.concat([buffer, data]);
    for (;;) {
        const end = buffer.indexOf('\r\n\r\n');
        const length = Number(/Content-Length: (\d+)/i.exec(buffer.subarray(0, Math.max(end, 0)))?.[1]);
        if (end < 0 || buffer.length < end + 4 + length) return;
        receive(JSON.parse(buffer.subarray(end + 4, end + 4 + length)));
        buffer = buffer.subarray(end + 4 + length);
    }
});
send({ id: 1, method: 'initialize', params: { processId: null, rootUri: null, capabilities: {} } });
