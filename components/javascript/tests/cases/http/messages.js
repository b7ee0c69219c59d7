// The messages of node:http without a server: over streams of the program.
const http = require('http');
const { Duplex, Writable } = require('stream');
const text = [];
const sink = new Writable({ write(chunk, encoding, callback) { text.push(chunk.toString('latin1')); callback(); } });
const response = new http.ServerResponse({ method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 });
response.assignSocket(sink);
response.sendDate = false;
response.setHeader('Content-Type', 'text/plain');
response.appendHeader('X-Many', 'a').appendHeader('X-Many', 'b');
response.write('first ');
response.end('last', () => console.log(JSON.stringify(text.join(''))));
console.log(response.headersSent, response.getHeaders(), response.getRawHeaderNames());
for (const call of [() => response.setHeader('a', 'b'), () => response.writeHead(200), () => new http.OutgoingMessage().setHeader('a b', 1), () => http.request({ host: 1 }), () => http.request('http://a b/')]) {
  try { call(); } catch (error) { console.log(error.name, error.code, error.message); }
}
class Fake extends Duplex {
  sent = '';
  _read() {}
  _write(chunk, encoding, callback) {
    this.sent += chunk;
    if (this.sent.endsWith('0\r\n\r\n')) {
      this.push('HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n\r\n');
      this.push('5\r\nhello\r\n');
      this.push('6;ext=1\r\n world\r\n0\r\nX-Sum: 11\r\n\r\n');
    }
    callback();
  }
}
const connection = new Fake();
const request = http.request({ host: 'example.com', method: 'POST', path: '/a?b', createConnection: () => connection, headers: { 'X-One': 1 } }, (answer) => {
  console.log(answer.statusCode, answer.statusMessage, answer.httpVersion, answer.headers, answer.rawHeaders);
  answer.setEncoding('utf8');
  let body = '';
  answer.on('data', (chunk) => (body += chunk)).on('end', () => console.log(body, answer.trailers, answer.complete, JSON.stringify(connection.sent)));
});
request.on('information', ({ statusCode, headers }) => console.log('information', statusCode, headers));
request.write('piece');
request.end();
const broken = http.get({ createConnection: () => new Duplex({ read() {}, write(chunk, encoding, callback) { this.push('nonsense\r\n'); callback(); } }) });
broken.on('error', (error) => console.log(error.code, error.message));
console.log(new http.Agent().getName({ host: 'a', port: 1, family: 4 }), http.maxHeaderSize, http.globalAgent.keepAlive);
