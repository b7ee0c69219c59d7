//! Runs each fuzz target as an ordinary test, over its seeds and mutations of them. Further
//! failures that a coverage-guided fuzzer finds become cases in `tests/cases`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::repository;

#[path = "../fuzz/targets.rs"]
pub mod targets;

type Target = fn(&[u8]);

/// Each target's name, its seeds, and its entry point.
const TARGETS: [(&str, Seeds, Target); 12] = [
    ("skill_md", Seeds::Files("skill", &["SKILL.md"]), targets::skill_md),
    ("policy", Seeds::Files("policy", &[".yaml"]), |bytes| with_text(bytes, targets::policy)),
    ("case", Seeds::Files("case", &[".yaml"]), |bytes| with_text(bytes, targets::case)),
    ("address", Seeds::Texts(&ADDRESSES), |bytes| with_text(bytes, targets::address)),
    ("compat", Seeds::Files("compat", &[".py", ".sh", "SKILL.md"]), |bytes| {
        with_text(bytes, targets::compat)
    }),
    ("listing", Seeds::Texts(&LISTINGS), targets::listing),
    ("receipt", Seeds::Texts(&RECEIPTS), targets::receipt),
    ("recording", Seeds::Texts(&RECORDINGS), targets::recording),
    ("search", Seeds::Texts(&QUERIES), |bytes| with_text(bytes, targets::search)),
    ("mcp", Seeds::Texts(&MESSAGES), targets::mcp),
    ("http_response", Seeds::Texts(&ANSWERS), targets::http_response),
    ("archive", Seeds::Files("archive", &[".tar", ".gz", ".zst", ".zip"]), targets::archive),
];

enum Seeds {
    /// Files below a folder of `tests/cases` with these endings.
    Files(&'static str, &'static [&'static str]),
    Texts(&'static [&'static str]),
}

const ADDRESSES: [&str; 8] = [
    "https://api.example.com/v1/items?q=1#x",
    "http://user:password@host:80/",
    "http://[::ffff:127.0.0.1]:8080/",
    "https://xn--bcher-kva.example./",
    "http://0x7f.0.0.1/",
    "http://2130706433/",
    "//host/path",
    "HTTPS://EXAMPLE.COM:443",
];

const LISTINGS: [&str; 10] = [
    "[]",
    r##"[{"name":"add","description":"Adds.","input_schema":{"type":"object"}}]"##,
    r##"[{"name":"a","description":"","input_schema":true,"output_schema":{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}}]"##,
    r##"[{"name":"a","description":"","input_schema":true},{"name":"a","description":"","input_schema":false}]"##,
    r##"[{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"allOf":[{"$ref":"#"}]}}},{}]"##,
    r##"[{"pattern":"^(a+)+$","minLength":2,"type":["string","null"]},"aaaaaaaaaaaaaaaaaaaaaaaa!"]"##,
    r##"[{"properties":{"a":{"type":"integer"}},"required":["b"],"additionalProperties":false},{"a":1.5,"bb":[]}]"##,
    r##"[{"uniqueItems":true,"contains":{"const":1},"unevaluatedItems":false,"prefixItems":[true]},[1,1.0,{"a":[]}]]"##,
    "\0asm\r\0\x01\0",
    "\0asm\r\0\x01\0\0\x12\x0fskillhost:tools[]",
];

const RECEIPTS: [&str; 8] = [
    "{}",
    "{\"version\":1}",
    "{\"result\":{\"stdout\":{\"head\":\"text\"}},\"version\":1}",
    "{\"result\":{\"stdout\":{\"head\":{\"base64\":\"//4=\"}}},\"version\":1}",
    "{\"payload\":\"e30=\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[]}",
    "{\"payload\":\"eyJ2ZXJzaW9uIjoxfQ==\",\"payloadType\":\"x\",\"signatures\":[{\"keyid\":\"\",\"sig\":\"\"}]}",
    "{\"a\":1e400,\"version\":1}",
    "[[[[[[[[[[[[[[[[[[[[",
];

const RECORDINGS: [&str; 8] = [
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[]}],"exchanges":[],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[{"path":"a","kind":"folder","writable":true},{"path":"a/b","kind":"file","bytes":1,"digest":"d","kept":false,"writable":true}]}],"exchanges":[],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[{"path":"../a","kind":"other"}]}],"exchanges":[],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[{"path":"l","kind":"link","target":"../x","bytes":4}]}],"exchanges":[],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[{"path":"l","kind":"link","target":"/x","bytes":2},{"path":"l/a","kind":"other"}]}],"exchanges":[],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":1,"skill":"s","target":{"kind":"main"},"arguments":[],"runtime":{"host":"h","engine":"e","fingerprint":"f","programs":{}},"policy":"p","capabilities":{},"environment":{},"stdin":{"bytes":0,"digest":"d"},"folders":[{"guest":"/skill","entries":[]}],"exchanges":[{"request":{"method":"GET","url":"u","headers":[{"name":"a","value":"b"}],"body":{"bytes":0,"digest":"d"}},"response":{"error":"unanswered"},"took":1}],"status":{"kind":"exited","code":0},"receipt":null,"sealed":{"salt":"","secrets":{},"headers":[]},"blobs":{}}"#,
    r#"{"version":2}"#,
    r#"[]"#,
];

const QUERIES: [&str; 12] = [
    "get the text out of a pdf",
    "csv rep",
    "exrtact tabels",
    "the of and",
    "fetch* OR \"page",
    "{name body}: NEAR(csv report, 1)",
    "NOT ^csv AND (a-b)",
    "column:value; DROP TABLE skill --",
    "Übersetzung 日本語 ⅷ ½ ۳ e\u{301}",
    "\0csv\u{feff}\u{202e}",
    "\u{10ffff}z\u{fffd}",
    "ﬁle İSTANBUL ſs",
];

const MESSAGES: [&str; 12] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search_skills","arguments":{"query":"advice","limit":3}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"activate_skill","arguments":{"name":"advice"}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read_skill_file","arguments":{"name":"advice","path":"../SKILL.md"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"run_skill","arguments":{"name":"advice","program":"x"}}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":"skill://advice/../../SKILL.md"}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"advice","arguments":{}}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"advice"},"argument":{"name":"a","value":"b"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":"9","result":{"roots":[{"uri":"file:///etc"}]}}"#,
    r#"[{"jsonrpc":"2.0","id":null,"method":"ping"},{"id":{}}]"#,
    "\0{\n\n\r\n\u{feff}{\"jsonrpc\":\"1.0\"}",
];

const ANSWERS: [&str; 12] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nffffffffffffffff\r\nabc",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close, x-own\r\nX-Own: 1\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n",
    "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n folded\r\n\r\nuntil the end",
    "HTTP/1.1 999 \u{fffd}\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n\r\n",
    "HTTP/2.0 200\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// Skips input that is not UTF-8, like the fuzzer does.
fn with_text(bytes: &[u8], run: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        run(text);
    }
}

#[test]
fn every_target_has_a_fuzz_program_and_seeds() {
    let manifest = std::fs::read_to_string(repository("fuzz/Cargo.toml")).unwrap();
    let mut programs: Vec<String> = std::fs::read_dir(repository("fuzz/fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    programs.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, ..)| *name).collect();
    names.sort();
    assert_eq!(programs, names);
    for (name, seeds, _) in &TARGETS {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        let text =
            std::fs::read_to_string(repository("fuzz/fuzz_targets").join(format!("{name}.rs")))
                .unwrap();
        assert!(text.contains(&format!("targets::{name}(input));")), "{name}");
        assert!(read(seeds).len() >= 8, "{name}");
    }
}

#[test]
fn every_target_accepts_its_seeds_and_their_mutations() {
    for (name, seeds, run) in &TARGETS {
        let seeds = read(seeds);
        seeds.iter().for_each(|seed| run(seed));
        let pick = || proptest::sample::select(seeds.clone());
        let mutated = (
            pick(),
            pick(),
            any::<[prop::sample::Index; 4]>(),
            prop::collection::vec(any::<u8>(), 0..4),
        )
            .prop_map(|(first, second, at, bytes)| {
                let [end, start, from, to] = at;
                let mut mutated = [
                    &first[..end.index(first.len() + 1)],
                    &bytes,
                    &second[start.index(second.len() + 1)..],
                ]
                .concat();
                if !mutated.is_empty() {
                    let (from, to) = (from.index(mutated.len()), to.index(mutated.len()));
                    mutated.swap(from, to);
                }
                mutated
            });
        let mut runner =
            TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(256) });
        let ran = runner.run(&mutated, |input| {
            run(&input);
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// `cargo xtask fuzz` runs this where no coverage-guided fuzzer is installed: `FUZZ_SECONDS` for
/// each target, or only for `FUZZ_TARGET`; `FUZZ_SEED` repeats a run.
#[test]
#[ignore = "`cargo xtask fuzz` runs it for a given time"]
#[expect(clippy::print_stderr, reason = "the seed reproduces a failure")]
fn targets_withstand_mutations_for_a_given_time() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    let seconds = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(1));
    let selected = std::env::var("FUZZ_TARGET").ok();
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|(name, ..)| selected.as_deref().is_none_or(|selected| selected == *name))
        .collect();
    assert!(!chosen.is_empty(), "no target is named {selected:?}");
    for (name, seeds, run) in chosen {
        let seeds = read(seeds);
        let seed = number("FUZZ_SEED").unwrap_or_else(|| std::process::id().into());
        eprintln!("{name}: seed {seed}");
        let (mut random, start, mut inputs) = (Random(seed), Instant::now(), 0u64);
        while start.elapsed() < seconds {
            let input = random.mutation(&seeds);
            inputs += 1;
            if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
                let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
                    .join(format!("fuzz-{name}-{seed}-{inputs}"));
                std::fs::write(&path, &input).unwrap();
                eprintln!(
                    "{name}: input {inputs} of seed {seed} fails; it is in {}",
                    path.display()
                );
                std::panic::resume_unwind(panic);
            }
        }
        eprintln!("{name}: {inputs} inputs");
    }
}

#[test]
fn a_mutation_can_be_reproduced_from_its_seed() {
    let seeds = [b"one".to_vec(), b"another".to_vec(), Vec::new()];
    let mutations = |seed| {
        let mut random = Random(seed);
        (0..100).map(|_| random.mutation(&seeds)).collect::<Vec<_>>()
    };
    assert!(mutations(1) == mutations(1) && mutations(1) != mutations(2));
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }

    /// Mutates a seed: cuts it, joins it with another seed, and changes a few places.
    fn mutation(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        const PIECES: [&[u8]; 12] = [
            b"\0",
            b"\n",
            b"\r\n",
            b"\"",
            b"{}",
            b"[[[[[[[[",
            b"../",
            b"-1",
            b"18446744073709551616",
            b"\xff",
            b"\xe2\x80\xae",
            b"null",
        ];
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 => input.truncate(at),
                1 => drop(input.splice(at.., seeds[self.below(seeds.len())].iter().copied())),
                2 => drop(input.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied())),
                3 => {
                    let end = (at + self.below(16)).min(input.len());
                    drop(input.drain(at..end));
                }
                4 => {
                    let end = (at + self.below(64)).min(input.len());
                    let piece = input[at..end].repeat(1 + self.below(8));
                    drop(input.splice(at..at, piece));
                }
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte = self.below(256) as u8;
                    }
                }
            }
        }
        input.truncate(1 << 16);
        input
    }
}

fn read(seeds: &Seeds) -> Vec<Vec<u8>> {
    fn walk(folder: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, ends, found);
            } else if path.to_str().is_some_and(|path| ends.iter().any(|end| path.ends_with(end))) {
                found.push(path);
            }
        }
    }
    match seeds {
        Seeds::Texts(texts) => texts.iter().map(|text| text.as_bytes().to_vec()).collect(),
        Seeds::Files(folder, ends) => {
            let mut found = Vec::new();
            walk(&repository("tests/cases").join(folder), ends, &mut found);
            found.sort();
            found.iter().map(|path| std::fs::read(path).unwrap()).collect()
        }
    }
}
