//! Requests of JavaScript are subject to the same limits as all others, and are never sent twice.

use std::io::Write as _;
use std::process::Output;

use super::runs::Skill;
use crate::cli::text;
use crate::scripts::api::Api;
use crate::servers::{Server, respond};

/// Sends a body of the given size, the given number of times, with `fetch` or `node:http`.
const SCRIPT: &str = "import http from 'node:http';
const [, , url, length, times, client] = process.argv;
const body = 'x'.repeat(Number(length));
const clients = {
    fetch: async () => (await (await fetch(url, { method: 'POST', body })).arrayBuffer()).byteLength,
    http: () => new Promise((done, fail) => {
        http.request(url, { method: 'POST' }, async (response) => {
            let count = 0;
            for await (const chunk of response) count += chunk.length;
            done(count);
        }).on('error', fail).end(body);
    }),
};
for (let n = 0; n < times; n++) console.log(await clients[client]());";

const CLIENTS: [&str; 2] = ["fetch", "http"];

fn ask(server: &Server, limits: &str, client: &str, length: u32, times: u32) -> Output {
    let skill = Skill::requesting("WebFetch", "main.mjs", SCRIPT);
    let policy =
        format!("limits: {{ {limits} }}\ndefault: {{ allow: ['WebFetch({})'] }}\n", server.url());
    skill.write("policy.yaml", &policy);
    let (length, times) = (length.to_string(), times.to_string());
    skill.run(&["main", "--policy", "js/policy.yaml", "--", &server.url(), &length, &times, client])
}

fn succeeds(run: Output, prints: &str) {
    assert_eq!(
        (run.status.code(), text(&run.stdout).as_str(), text(&run.stderr).as_str()),
        (Some(0), prints, "")
    );
}

fn assert_hit(run: Output, limit: &str) {
    let stderr = text(&run.stderr);
    assert!(
        !run.status.success() && stderr.contains(&format!("the limit `{limit}` of ")),
        "{stderr}"
    );
}

#[test]
fn the_number_of_requests_is_limited() {
    for client in CLIENTS {
        let server = Server::of_size(10);
        succeeds(ask(&server, "http-requests: 2", client, 1, 2), "10\n10\n");
        assert_hit(ask(&server, "http-requests: 2", client, 1, 3), "http-requests");
        assert_eq!(server.connections(), 4);
    }
}

#[test]
fn the_request_body_size_is_limited() {
    for client in CLIENTS {
        let server = Server::start(|_, stream| respond(stream, "200 OK", "", b"x"));
        succeeds(ask(&server, "http-request-body: 1000", client, 1000, 1), "1\n");
        assert_hit(ask(&server, "http-request-body: 1000", client, 1001, 1), "http-request-body");
    }
}

#[test]
fn the_response_body_size_is_limited() {
    for client in CLIENTS {
        let server = Server::of_size(1000);
        succeeds(ask(&server, "http-response-body: 1000", client, 1, 1), "1000\n");
        assert_hit(ask(&server, "http-response-body: 999", client, 1, 1), "http-response-body");
        let endless = Server::start(|_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
            while stream.write_all(&[b'x'; 1000]).is_ok() {}
        });
        let limits = "http-response-body: 300000";
        assert_hit(ask(&endless, limits, client, 1, 1), "http-response-body");
    }
}

#[test]
fn first_byte_and_total_times_are_limited() {
    for client in CLIENTS {
        let server = Server::silent();
        assert_hit(ask(&server, "http-first-byte: 100ms", client, 1, 1), "http-first-byte");
        assert_hit(ask(&server, "http-total: 100ms", client, 1, 1), "http-total");
        assert_hit(ask(&Server::dripping(), "http-total: 300ms", client, 1, 1), "http-total");
        assert_eq!(server.connections(), 2);
    }
}

/// Uses an API as skills do, with each client.
const CLIENT: &str = "import http from 'node:http';
import axios from 'axios';
import nodeFetch from 'node-fetch';
const [, , url] = process.argv;
const sorted = (key, value) => value?.constructor === Object ? Object.fromEntries(Object.entries(value).sort()) : value;
const json = (data) => console.log(JSON.stringify(data, sorted));

for (const get of [fetch, nodeFetch]) {
    const users = await get(`${url}/users?page=2`);
    json([users.status, users.ok, users.headers.get('content-type'), users.headers.get('x-served-by'), await users.json()]);
    const created = await get(`${url}/orders`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ item: 'tëa', quantity: 2 }) });
    json([created.status, created.headers.get('location')]);
    json([(await get(`${url}/private`)).status, await (await get(`${url}/private`, { headers: { authorization: 'Bearer s3cret' } })).json()]);
    const moved = await get(`${url}/old`);
    json([moved.redirected ?? moved.url.endsWith('/users/1'), moved.url.replace(url, ''), (await moved.json()).name]);
    json([(await get(`${url}/old`, { redirect: 'manual' })).status, (await get(`${url}/users/9`)).status, (await get(`${url}/broken`)).ok]);
    json(await (await get(`${url}/echo?a=b%20c`, { method: 'PUT', headers: { 'x-agent': 'me' }, body: new URLSearchParams({ x: 'ÿ' }) })).json());
}
json((await axios.post(`${url}/echo`, { a: 1 })).data);
await axios.get(`${url}/users/9`).catch((error) => json([error.code, error.response.status, error.response.data]));

const ask = (path, options = {}, body) => new Promise((done, fail) => {
    const request = http.request(url + path, options, (response) => {
        response.setEncoding('utf8');
        let text = '';
        response.on('data', (chunk) => { text += chunk; });
        response.on('end', () => done([response.statusCode, response.statusMessage, response.headers['content-type'], text.startsWith('{') ? JSON.parse(text) : text]));
    });
    request.on('error', fail);
    const send = () => {
        if (body) for (const part of body) request.write(part);
        request.end();
    };
    if (options.headers?.Expect) request.on('continue', send);
    else send();
});
json(await ask('/health', { method: 'HEAD' }));
json(await ask('/old'));
json(await ask('/echo', { method: 'DELETE' }));
json(await ask('/echo', { method: 'POST', headers: { 'Content-Type': 'text/plain' } }, ['one ', Buffer.from('two')]));
json(await ask('/echo', { method: 'POST', headers: { Expect: '100-continue' } }, ['three']));
http.get(`${url}/data.csv`, (response) => response.pipe(process.stdout));
await fetch('http://127.0.0.1:1/').catch((error) => console.log(error.name, error.message));
http.get('http://127.0.0.1:1/').on('error', (error) => console.log(error.code));
const controller = new AbortController();
controller.abort();
await fetch(`${url}/health`, { signal: controller.signal }).catch((error) => console.log(error.name));";

#[test]
fn clients_use_an_api() {
    let api = Api::start();
    let skill = Skill::requesting("WebFetch", "main.mjs", CLIENT);
    let entry = format!("WebFetch({})", api.url());
    let run = skill.run(&["main", "--allow", &entry, "--", &api.url()]);
    let both = r#"[200,true,"application/json; charset=utf-8","test",{"items":[{"city":"København","id":3,"name":"Søren"},{"city":"北京","id":4,"name":"李雷"}],"next":3,"page":2}]
[201,"/orders/N"]
[401,{"secret":"tea"}]
[true,"/users/1","Ada"]
[302,404,false]
{"agent":"me","body":"x=%C3%BF","method":"PUT","query":"a=b%20c","type":"application/x-www-form-urlencoded;charset=UTF-8"}
"#;
    let rest = r#"{"agent":"","body":"{\"a\":1}","method":"POST","query":"","type":"application/json"}
["ERR_BAD_REQUEST",404,{"error":"no such user"}]
[200,"OK","application/json; charset=utf-8",""]
[302,"Found",null,""]
[200,"OK","application/json; charset=utf-8",{"agent":"","body":"","method":"DELETE","query":"","type":""}]
[200,"OK","application/json; charset=utf-8",{"agent":"","body":"one two","method":"POST","query":"","type":"text/plain"}]
[200,"OK","application/json; charset=utf-8",{"agent":"","body":"three","method":"POST","query":"","type":""}]
TypeError fetch failed
AbortError
EACCES
city,people
Köln,1084831
Zürich,447082
"#;
    let expected = [both.replace("/N", "/1"), both.replace("/N", "/2"), rest.to_owned()].concat();
    assert_eq!(text(&run.stdout), expected, "{}", text(&run.stderr));
    assert_eq!(run.status.code(), Some(0));
}
