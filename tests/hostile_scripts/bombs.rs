//! Scripts that use up time, memory or the stack. Each is ended by its limit, or by an error that it
//! can catch.

use std::time::Duration;

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{LimitHit, Outcome, Status};
use skillhost_sandbox::Stdin;

use super::{Place, assert_alive, cases};
use crate::hostile_host::Run;

/// The deadline of an endless script, and the time by which it may pass it.
const DEADLINE: u64 = 1_000;
const GRACE: f64 = 200.0;
/// A loaded machine gets as many attempts at keeping the time.
const ATTEMPTS: usize = 5;

/// The memory of a script that takes all that it gets.
const MEMORY: u64 = 96 << 20;

/// Scripts that never end by themselves.
const ENDLESS: &[(&str, &str)] = &[
    ("loop", "for (;;);"),
    ("loop-in-finally", "try { for (;;); } finally { for (;;); }"),
    ("promises", "(function next() { Promise.resolve().then(next); })();"),
    ("microtasks", "(function next() { queueMicrotask(next); })();"),
    ("ticks", "(function next() { process.nextTick(next); })();"),
    ("immediates", "(function next() { setImmediate(next); })();"),
    ("interval", "setInterval(() => {}, 0);"),
    ("sleep", "setTimeout(() => {}, 2 ** 31 - 1);"),
    ("atomics-wait", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e9);"),
    ("stdin", "process.stdin.resume();"),
    ("regular-expression", "/^(a+)+$/.test('a'.repeat(40) + 'b');"),
    ("back-reference", r"/^(a*)*\1b$/.test('a'.repeat(64));"),
    ("text-search", "for (let text = 'a'.repeat(1e6);;) text.lastIndexOf('a'.repeat(5e5) + 'b');"),
    ("comparator", "[2, 1].sort(() => { for (;;); });"),
    ("conversion", "`${{ toString() { for (;;); } }}`;"),
    ("proxy", "Object.keys(new Proxy({}, { ownKeys() { for (;;); } }));"),
    ("big-integer", "for (;;) (3n ** 300000n).toString();"),
    ("key-derivation", "require('node:crypto').pbkdf2Sync('a', 'b', 2 ** 31 - 1, 64, 'sha512');"),
    (
        "compression",
        "for (const data = Buffer.alloc(1 << 24);;) require('node:zlib').brotliCompressSync(data);",
    ),
    ("at-exit", "process.on('exit', () => { for (;;); });"),
    ("before-exit", "process.on('beforeExit', () => setImmediate(() => {}));"),
    (
        "uncaught",
        "process.on('uncaughtException', () => setImmediate(() => { throw 1; })); throw 1;",
    ),
    ("child", "require('node:child_process').execFileSync('node', ['-e', 'for (;;);']);"),
    ("own-timeout", "require('node:vm').runInThisContext('for (;;);', { timeout: 1e9 });"),
    (
        "imports",
        "(async () => { for (let n = 0;; n++) await import(`data:text/javascript,//${n}`); })();",
    ),
    (
        "arrow-parameters",
        "require('node:fs').writeFileSync('/tmp/a.cts', '(a='.repeat(200)); try { require('/tmp/a.cts'); } catch {} for (;;);",
    ),
];

/// Scripts that take memory until an error or a limit ends them.
const HUNGRY: &[(&str, &str)] = &[
    ("string-doubling", "for (let s = 'x';;) s += s;"),
    ("string-repeat", "const all = []; for (;;) all.push('x'.repeat(1e7) + all.length);"),
    (
        "string-padding",
        "const all = []; for (;;) all.push('x'.padEnd(2 ** 24 + all.length, 'ab').toUpperCase());",
    ),
    ("string-replacement", "for (let s = 'aa';;) s = s.replace(/a/g, '$&$&$`');"),
    ("joined-array", "new Array(2 ** 31).join('xxxxxxxx');"),
    ("objects", "const all = []; for (;;) all.push({});"),
    ("filled-array", "new Array(2 ** 32 - 1).fill(0);"),
    ("array-from", "Array.from({ length: 1e9 });"),
    (
        "spread",
        "(function* f() { for (;;) yield {}; })().toArray?.(); [...(function* () { for (;;) yield {}; })()];",
    ),
    ("names", "const o = {}; for (let n = 0;; n++) o[`name${n}`] = n;"),
    ("symbols", "const all = []; for (let n = 0;; n++) all.push(Symbol.for(`name${n}`));"),
    ("map", "const all = new Map(); for (let n = 0;; n++) all.set({}, n);"),
    ("buffers", "const all = []; for (;;) all.push(Buffer.alloc(1 << 20));"),
    ("array-buffer", "const all = []; for (;;) all.push(new ArrayBuffer(2 ** 30));"),
    ("growing-buffer", "new ArrayBuffer(1, { maxByteLength: 2 ** 31 - 1 }).resize(2 ** 31 - 1);"),
    ("promises-held", "const all = []; for (;;) all.push(new Promise(() => {}));"),
    ("timers-held", "for (;;) setTimeout(() => {}, 1e9);"),
    ("ticks-held", "for (;;) process.nextTick(() => {});"),
    ("listeners", "process.setMaxListeners(0); for (;;) process.on('x', () => {});"),
    ("big-integers", "const all = []; for (;;) all.push(7n ** 300000n);"),
    ("functions", "const all = []; for (let n = 0;; n++) all.push(new Function(`return ${n}`));"),
    ("source", "new Function('x;'.repeat(2e7));"),
    ("json-numbers", "JSON.parse('[' + '0,'.repeat(2e7) + '0]');"),
    ("json-text", "const all = Array(2e6).fill('text'); for (;;) all.push(JSON.stringify(all));"),
    ("json-references", "let o = []; for (let n = 0; n < 60; n++) o = [o, o]; JSON.stringify(o);"),
    ("clone", "let o = Array(1e6).fill(1); for (;;) o = [o, structuredClone(o)];"),
    ("regular-expression-size", "new RegExp('(?:a?){65535}'.repeat(20000));"),
    ("captures", "'a'.repeat(5e6).match(/a/g).map((a) => [a, a]);"),
    (
        "gzip",
        "const { gzipSync, gunzipSync } = require('node:zlib'); let bomb = gzipSync(Buffer.alloc(1 << 24)); const all = []; for (;;) all.push(gunzipSync(bomb));",
    ),
    (
        "deflate-stream",
        "const zlib = require('node:zlib'); const bomb = zlib.deflateSync(Buffer.alloc(1 << 24)); const all = []; for (let n = 0; n < 100; n++) { const s = zlib.createInflate(); s.on('data', (d) => all.push(d)); s.end(bomb); }",
    ),
    (
        "brotli",
        "const zlib = require('node:zlib'); const bomb = zlib.brotliCompressSync(Buffer.alloc(1 << 24)); const all = []; for (;;) all.push(zlib.brotliDecompressSync(bomb));",
    ),
    (
        "scrypt",
        "require('node:crypto').scryptSync('a', 'b', 64, { N: 2 ** 20, r: 16, p: 1, maxmem: 2 ** 40 });",
    ),
    ("random", "const all = []; for (;;) all.push(require('node:crypto').randomBytes(1 << 20));"),
    ("file", "require('node:fs').readFileSync('/dev/zero');"),
    (
        "chunks",
        "const all = []; require('node:fs').createReadStream('/dev/zero').on('data', (chunk) => all.push(chunk));",
    ),
    ("blob", "let blob = new Blob(['x'.repeat(1e6)]); for (;;) blob = new Blob([blob, blob]);"),
    ("base64", "let s = 'x'.repeat(1e6); for (;;) s = btoa(s);"),
    (
        "child-output",
        "require('node:child_process').execFileSync('node', ['-e', 'for (;;) process.stdout.write(`x`.repeat(1e6))'], { maxBuffer: Infinity });",
    ),
    (
        "arguments",
        "require('node:child_process').spawnSync('node', Array(1e6).fill('x'.repeat(1e3)));",
    ),
];

/// Returns the names of all scripts here.
pub(super) fn names() -> impl Iterator<Item = String> {
    ENDLESS.iter().chain(HUNGRY).map(|(name, _)| (*name).to_owned())
}

const TOOLS: [&str; 2] = ["Read", "Bash(node:*)"];

fn granted<'a>(place: &'a Place, args: &[&str]) -> Run<'a> {
    TOOLS.iter().fold(place.run(args), |run, tool| run.allow(tool))
}

#[test]
fn endless_scripts_end_at_the_deadline() {
    let mut late = Vec::new();
    let mut last = None;
    for (name, script) in ENDLESS {
        let place = Place::new(script, &TOOLS);
        let attempt = || {
            let (stdin, open) = std::io::pipe().unwrap();
            let run = granted(&place, &[]).stdin(Stdin::Descriptor(stdin.into()));
            let outcome = run.limit(Limit::Timeout, DEADLINE).go();
            drop(open);
            let hit =
                matches!(outcome.status, Status::LimitHit(LimitHit { limit: Limit::Timeout, .. }));
            assert!(hit, "{name}: {:?} {}", outcome.status, outcome.stderr.text());
            outcome.usage.wall_ms - DEADLINE as f64
        };
        let least = (0..ATTEMPTS).map(|_| attempt()).find(|over| *over <= GRACE);
        late.extend(least.is_none().then_some(*name));
        last = Some(place);
    }
    assert!(late.is_empty(), "more than {GRACE} ms after the deadline: {late:?}");
    assert_alive(&last.unwrap());
}

/// Whether a script ended by a limit or by itself, instead of by a trap.
fn ended_well(outcome: &Outcome) -> bool {
    match &outcome.status {
        Status::LimitHit(hit) => hit.limit != Limit::Stack,
        Status::Exited { .. } => true,
        _ => false,
    }
}

#[test]
fn hungry_scripts_end_within_their_memory() {
    let mut wrong = Vec::new();
    let mut last = None;
    for (name, script) in HUNGRY {
        let place = Place::new(script, &TOOLS);
        let outcome =
            granted(&place, &[]).limit(Limit::Memory, MEMORY).limit(Limit::Timeout, 10_000).go();
        if !ended_well(&outcome) || outcome.usage.memory_peak > MEMORY {
            let end = outcome.stderr.text().into_owned();
            wrong.push(format!("{name}: {:?} {} {end}", outcome.status, outcome.usage.memory_peak));
        }
        last = Some(place);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_alive(&last.unwrap());
}

#[test]
fn output_files_handles_and_programs_of_scripts_are_limited() {
    for (limit, value, script) in [
        (Limit::Stdout, 100_000, "for (;;) console.log('x'.repeat(1e4));"),
        (Limit::Stderr, 100_000, "for (;;) console.error('x'.repeat(1e4));"),
        (
            Limit::Disk,
            100_000,
            "for (let n = 0;; n++) require('node:fs').appendFileSync('/tmp/a', 'x'.repeat(1e4));",
        ),
        (
            Limit::Files,
            100,
            "for (let n = 0;; n++) require('node:fs').writeFileSync(`/tmp/${n}`, '');",
        ),
        (Limit::Handles, 200, "for (;;) require('node:fs').openSync('/skill/SKILL.md');"),
        (
            Limit::Random,
            1 << 20,
            "const fs = require('node:fs'); for (const fd = fs.openSync('/dev/urandom');;) fs.readSync(fd, Buffer.alloc(1 << 16));",
        ),
        (
            Limit::Processes,
            5,
            "for (;;) { const { error } = require('node:child_process').spawnSync('node', ['-e', '0']); if (error) throw error; }",
        ),
        (
            Limit::ProcessDepth,
            4,
            "const { error, status } = require('node:child_process').spawnSync('node', [__filename]); if (error) throw error; process.exit(status);",
        ),
    ] {
        let place = Place::new(script, &TOOLS);
        let outcome = granted(&place, &[]).limit(limit, value).limit(Limit::Timeout, 60_000).go();
        let hit = outcome.limits_hit.first().map(|hit| hit.limit);
        assert_eq!(hit, Some(limit), "{script}: {:?} {}", outcome.status, outcome.stderr.text());
        assert_ne!(outcome.status, Status::Exited { code: 0 }, "{script}");
    }
}

/// Runs a script that reports how each of many nested things ended.
fn report(name: &str) -> Vec<(String, String)> {
    let script = std::fs::read_to_string(cases().join(format!("{name}.js"))).unwrap();
    let place = Place::new(&script, &TOOLS);
    let run = granted(&place, &[]).limit(Limit::Timeout, 110_000).limit(Limit::Memory, 1 << 30);
    let outcome = run.go();
    let (stdout, stderr) = (outcome.stdout.text(), outcome.stderr.text());
    let last = stdout.lines().last().unwrap_or_default();
    assert_eq!((&outcome.status, last), (&Status::Exited { code: 0 }, "end"), "{stdout}{stderr}");
    let split = |line: &str| line.split_once(": ").map(|(name, end)| (name.into(), end.into()));
    stdout.lines().filter_map(split).collect()
}

#[test]
fn deep_recursion_is_an_error_that_scripts_can_catch() {
    let ends = report("deep");
    assert!(ends.len() > 50, "{ends:?}");
    for (name, end) in &ends {
        let known =
            ["done", "RangeError", "SyntaxError", "InternalError", "TypeError", "ReferenceError"];
        assert!(known.contains(&end.as_str()), "{name}: {end}");
    }
    let ended =
        |name: &str| ends.iter().find(|(known, _)| known == name).map(|(_, end)| end.as_str());
    for name in ["calls", "getters", "iterators", "constructors"] {
        assert_eq!(ended(name), Some("RangeError"), "{name}");
    }
}

#[test]
fn deeply_nested_typescript_is_an_error_that_scripts_can_catch() {
    let ends = report("deep-typescript");
    assert!(ends.len() > 35, "{ends:?}");
    for (name, end) in &ends {
        assert!(
            ["done", "RangeError", "SyntaxError", "ReferenceError", "TypeError"]
                .contains(&end.as_str()),
            "{name}: {end}"
        );
    }
}

/// The deadline also holds while the host works for the script.
#[test]
fn waiting_for_a_child_ends_at_the_deadline() {
    let script = "require('node:child_process').spawnSync('sleep', ['1000']);";
    let place = Place::new(script, &["Bash(sleep:*)"]);
    let started = std::time::Instant::now();
    let outcome = place.run(&[]).allow("Bash(sleep:*)").limit(Limit::Timeout, DEADLINE).go();
    let hit = matches!(outcome.status, Status::LimitHit(LimitHit { limit: Limit::Timeout, .. }));
    assert!(hit && started.elapsed() < Duration::from_secs(60), "{:?}", outcome.status);
}
