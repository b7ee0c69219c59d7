//! The fuzz targets as ordinary tests: each over its seeds, and over what is made of those by cutting, joining and changing bytes. What a
//! fuzzer with coverage finds beyond that is added to `tests/cases`.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::cli::repository;

#[path = "../fuzz/targets.rs"]
mod targets;

type Target = fn(&[u8]);

/// Each with its files of `tests/cases`, and what it does with bytes.
const TARGETS: [(&str, Seeds, Target); 8] = [
    ("skill_md", Seeds::Files("skill", &["SKILL.md"]), targets::skill_md),
    ("policy", Seeds::Files("policy", &[".yaml"]), |bytes| with_text(bytes, targets::policy)),
    ("address", Seeds::Texts(&ADDRESSES), |bytes| with_text(bytes, targets::address)),
    ("compat", Seeds::Files("compat", &[".py", ".sh", "SKILL.md"]), |bytes| with_text(bytes, targets::compat)),
    ("listing", Seeds::Texts(&LISTINGS), targets::listing),
    ("receipt", Seeds::Texts(&RECEIPTS), targets::receipt),
    ("recording", Seeds::Texts(&RECORDINGS), targets::recording),
    ("search", Seeds::Texts(&QUERIES), |bytes| with_text(bytes, targets::search)),
];

enum Seeds {
    /// Of a folder of `tests/cases`, those that end so.
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

/// As the fuzzer hands on a text: what is none is passed over.
fn with_text(bytes: &[u8], run: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        run(text);
    }
}

#[test]
fn every_target_is_a_program_of_the_fuzz_crate_and_has_seeds() {
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
        let text = std::fs::read_to_string(repository("fuzz/fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(text.contains(&format!("targets::{name}(input));")), "{name}");
        assert!(read(seeds).len() >= 8, "{name}");
    }
}

#[test]
fn every_target_takes_its_seeds_and_what_is_made_of_them() {
    for (name, seeds, run) in &TARGETS {
        let seeds = read(seeds);
        seeds.iter().for_each(|seed| run(seed));
        let pick = || proptest::sample::select(seeds.clone());
        let made = (pick(), pick(), any::<[prop::sample::Index; 4]>(), prop::collection::vec(any::<u8>(), 0..4)).prop_map(
            |(one, other, at, bytes)| {
                let [end, start, from, to] = at;
                let mut made = [&one[..end.index(one.len() + 1)], &bytes, &other[start.index(other.len() + 1)..]].concat();
                if !made.is_empty() {
                    let (from, to) = (from.index(made.len()), to.index(made.len()));
                    made.swap(from, to);
                }
                made
            },
        );
        let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(256) });
        let ran = runner.run(&made, |input| {
            run(&input);
            Ok(())
        });
        ran.unwrap_or_else(|error| panic!("{name}: {error}"));
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
