//! Changes to a recording are found: by its digests or, if these were adjusted, by the result of
//! the replay.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use skillhost_sandbox::recording::folder;

use super::network::{PLAIN, StoppableServer};
use super::recording;
use crate::audit::digest;
use crate::cli::{copy, text};
use crate::receipt::Place;

/// Changes a recording, and adjusts its digest.
pub fn change(folder: &Path, tamper: impl FnOnce(&mut Value)) {
    let mut recorded = recording(folder);
    let before = recorded.clone();
    tamper(&mut recorded);
    assert_ne!(recorded, before, "nothing was changed");
    recorded.as_object_mut().unwrap().remove("digest");
    recorded["digest"] = folder::digest(&recorded).into();
    std::fs::write(folder.join("recording.json"), folder::text(&recorded).unwrap()).unwrap();
}

/// A recording of a run that uses everything that a recording can contain.
static GENUINE: LazyLock<Place> = LazyLock::new(|| {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, PLAIN);
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Read Write Bash WebFetch\n---\n",
    )
    .unwrap();
    let script = "#!/bin/bash\ncat; cat data/a.txt; echo $1 $NAME $RANDOM; date; curl -s $2/one; echo; curl -s $2/two\n";
    std::fs::write(place.path("sk/scripts/run.sh"), script).unwrap();
    let url = server.url();
    let args = [
        "run",
        "./sk",
        "run.sh",
        "--policy",
        &policy,
        "--workspace",
        "w",
        "--env",
        "NAME=value",
        "--record",
        "rec",
        "--",
        "arg",
        &url,
    ];
    let run = place.skillhost(&args, "input\n");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(place.skillhost(&["replay", "rec"], "").status.code(), Some(0));
    place
});

/// Asserts that a changed copy is refused with this exit code, and that the message names the
/// change.
fn refused(code: i32, named: &str, tamper: impl FnOnce(&Path)) {
    let at = tempfile::tempdir_in(GENUINE.user.work()).unwrap();
    let folder = at.path().join("rec");
    copy(&GENUINE.path("rec"), &folder);
    tamper(&folder);
    let run = GENUINE.skillhost(&["replay", folder.to_str().unwrap()], "");
    assert_eq!(run.status.code(), Some(code), "{named}: {run:?}");
    assert!(text(&run.stderr).contains(named), "{named}: {run:?}");
}

fn assert_found(code: i32, named: &str, tamper: impl FnOnce(&mut Value)) {
    refused(code, named, |folder| change(folder, tamper));
}

/// Returns the file of some stored bytes.
fn blob(folder: &Path, bytes: &[u8]) -> PathBuf {
    folder.join("blobs").join(digest(bytes).trim_start_matches("sha256:"))
}

/// Replaces stored bytes, with adjusted digests everywhere but in the receipt.
fn swap(folder: &Path, old: &[u8], new: &[u8]) {
    std::fs::remove_file(blob(folder, old)).unwrap();
    std::fs::write(blob(folder, new), new).unwrap();
    change(folder, |recorded| {
        let receipt = recorded["receipt"].take();
        let mut text = recorded.to_string().replace(&digest(old), &digest(new));
        let (from, to) = (
            format!("\"bytes\":{},\"digest\":\"{}\"", old.len(), digest(new)),
            format!("\"bytes\":{},\"digest\":\"{}\"", new.len(), digest(new)),
        );
        text = text.replace(&from, &to);
        *recorded = serde_json::from_str(&text).unwrap();
        recorded["receipt"] = receipt;
    });
}

fn body(number: usize) -> Vec<u8> {
    let recorded = recording(&GENUINE.path("rec"));
    let digest = recorded["exchanges"][number]["response"]["head"]["body"]["digest"]
        .as_str()
        .unwrap()
        .trim_start_matches("sha256:")
        .to_owned();
    std::fs::read(GENUINE.path("rec/blobs").join(digest)).unwrap()
}

#[test]
fn changed_or_missing_content_is_found() {
    refused(65, "was modified", |folder| {
        std::fs::write(blob(folder, b"data\n"), "DATA\n").unwrap()
    });
    refused(65, "No such file", |folder| std::fs::remove_file(blob(folder, b"data\n")).unwrap());
    refused(65, "No such file", |folder| std::fs::remove_file(blob(folder, b"input\n")).unwrap());
    refused(65, "No such file", |folder| std::fs::remove_file(blob(folder, &body(0))).unwrap());
    refused(65, "blobs/", |folder| {
        std::fs::remove_file(blob(folder, b"data\n")).unwrap();
        std::fs::write(folder.join("elsewhere"), "data\n").unwrap();
        std::os::unix::fs::symlink("../elsewhere", blob(folder, b"data\n")).unwrap();
    });
    refused(65, "larger than 5 B", |folder| {
        std::fs::write(blob(folder, b"data\n"), vec![b'x'; 100]).unwrap()
    });
}

#[test]
fn a_changed_text_with_the_old_digest_is_found() {
    let rewrite = |from: &'static str, to: &'static str| {
        move |folder: &Path| {
            let path = folder.join("recording.json");
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.contains(from));
            std::fs::write(path, text.replacen(from, to, 1)).unwrap();
        }
    };
    refused(65, "its `digest` does not match", rewrite("\"arg\"", "\"other\""));
    refused(65, "version 2 is not supported", rewrite("\"version\": 1", "\"version\": 2"));
    refused(65, "is not valid JSON", rewrite("{", "{{"));
    refused(
        65,
        "is not formatted as skillhost",
        rewrite("\"digest\"", "\"digest\": 1, \"digest\""),
    );
    refused(65, "is not formatted as skillhost", rewrite("{", "{ "));
    refused(74, "cannot read the recording", |folder| {
        std::fs::remove_file(folder.join("recording.json")).unwrap()
    });
}

#[test]
fn a_changed_skill_is_found() {
    let script = std::fs::read(GENUINE.path("sk/scripts/run.sh")).unwrap();
    let other = String::from_utf8(script.clone()).unwrap().replace("cat;", "tac;");
    refused(81, "skill.digest", |folder| swap(folder, &script, other.as_bytes()));
    assert_found(81, "skill", |recorded| {
        recorded["receipt"]["skill"]["digest"] = digest(b"other").into()
    });
    assert_found(81, "program.script.path", |recorded| {
        recorded["receipt"]["program"]["script"]["path"] = "scripts/other.sh".into()
    });
}

#[test]
fn a_changed_input_is_found() {
    refused(83, "input.files.table", |folder| swap(folder, b"data\n", b"DATA\n"));
    refused(83, "input.stdin.digest", |folder| swap(folder, b"input\n", b"INPUT\n"));
    assert_found(83, "arguments", |recorded| recorded["arguments"][0] = "other".into());
    assert_found(83, "input.environment.NAME", |recorded| {
        recorded["environment"]["NAME"] = "other".into()
    });
    assert_found(65, "the variables do not match the capabilities", |recorded| {
        recorded["environment"]["MORE"] = "x".into()
    });
    assert_found(83, "input.files", |recorded| {
        let folders = recorded["folders"].as_array_mut().unwrap();
        let workspace = folders.iter_mut().find(|folder| folder["guest"] == "/workspace").unwrap();
        workspace["entries"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "path": "more", "kind": "folder", "writable": true }));
    });
}

#[test]
fn changed_capabilities_or_start_are_found() {
    let capabilities = |code, named, tamper: fn(&mut Value)| {
        assert_found(code, named, |recorded| tamper(&mut recorded["capabilities"]))
    };
    capabilities(83, "grant.capabilities.write", |c| {
        c["write"]["none_of"] = json!(["/workspace/x"])
    });
    capabilities(83, "limit `memory`", |c| c["limits"]["memory"] = json!(1u64 << 40));
    capabilities(83, "grant.capabilities.limits.memory", |c| {
        c["limits"]["memory"] = json!(400 << 20)
    });
    capabilities(83, "grant.capabilities.determinism.seed", |c| {
        c["determinism"]["seed"] = 7.into()
    });
    capabilities(83, "grant.capabilities.determinism.start_time", |c| {
        c["determinism"]["start_time"] = "2031-01-01T00:00:00Z".into()
    });
    capabilities(65, "was not deterministic", |c| {
        drop(c.as_object_mut().unwrap().remove("determinism"))
    });
    capabilities(65, "invalid capabilities in the recording", |c| c["more"] = true.into());
    capabilities(65, "no folder for /data", |c| {
        c["mounts"].as_array_mut().unwrap().push(json!({ "guest": "/data", "mode": "write" }))
    });
    assert_found(83, "grant.policy", |recorded| recorded["policy"] = digest(b"other").into());
    // If the receipt is adjusted too, the replay shows it.
    assert_found(82, "result.", |recorded| {
        recorded["capabilities"]["determinism"]["seed"] = 7.into();
        recorded["receipt"]["grant"]["capabilities"] = recorded["capabilities"].clone();
        recorded["receipt"]["grant"]["digest"] =
            skillhost_ledger::receipt::canonical::digest(&recorded["capabilities"]).into();
    });
}

#[test]
fn a_changed_runtime_is_found() {
    assert_found(83, "runtime.programs.shell", |recorded| {
        recorded["runtime"]["programs"]["shell"] = digest(b"other").into()
    });
    assert_found(83, "runtime.fingerprint", |recorded| {
        recorded["runtime"]["fingerprint"] = digest(b"other").into()
    });
    assert_found(83, "runtime.host", |recorded| {
        recorded["runtime"]["host"] = "skillhost 9.9.9".into()
    });
}

#[test]
fn a_changed_network_exchange_is_found() {
    let first = body(0);
    let other = String::from_utf8(first.clone()).unwrap().replace("nobody", "NOBODY");
    refused(82, "result.stdout", |folder| swap(folder, &first, other.as_bytes()));
    assert_found(82, "requests[0].status", |recorded| {
        recorded["exchanges"][0]["response"]["head"]["status"] = 201.into()
    });
    assert_found(82, "/other", |recorded| {
        recorded["exchanges"][1]["request"]["url"] = "http://127.0.0.1:1/other".into()
    });
    assert_found(82, "requests that the recorded run did not send", |recorded| {
        drop(recorded["exchanges"].as_array_mut().unwrap().pop())
    });
    assert_found(82, "requests that the recorded run did not send", |recorded| {
        recorded["exchanges"].as_array_mut().unwrap().swap(0, 1)
    });
    assert_found(82, "requests that the recorded run did not send", |recorded| {
        recorded["exchanges"][0]["request"]["body"]["bytes"] = 1.into()
    });
    assert_found(82, "result.", |recorded| {
        recorded["exchanges"][0]["response"] = json!({ "error": "unanswered" })
    });
    assert_found(82, "result.", |recorded| {
        recorded["exchanges"][0]["response"]["head"]["headers"] =
            json!([{ "name": "no name", "value": "x" }])
    });
}

#[test]
fn a_changed_result_is_found() {
    assert_found(82, "result.status.code", |recorded| {
        recorded["receipt"]["result"]["status"]["code"] = 1.into()
    });
    assert_found(82, "result.stdout.digest", |recorded| {
        recorded["receipt"]["result"]["stdout"]["digest"] = digest(b"other").into()
    });
    assert_found(82, "result.cost.fuel", |recorded| {
        recorded["receipt"]["result"]["cost"]["fuel"] = 1.into()
    });
}

#[test]
fn names_leading_out_of_the_folders_are_refused() {
    let entry = |entry: Value| {
        move |recorded: &mut Value| {
            let folders = recorded["folders"].as_array_mut().unwrap();
            let workspace =
                folders.iter_mut().find(|folder| folder["guest"] == "/workspace").unwrap();
            workspace["entries"].as_array_mut().unwrap().push(entry);
        }
    };
    let file = |path: &str| json!({ "path": path, "kind": "file", "bytes": 1, "digest": digest(b"x"), "kept": false, "writable": true });
    for path in [
        "../out",
        "/tmp/out",
        "a/../../out",
        "data/./x",
        "nowhere/x",
        "",
        "data/a.txt",
        "data/a.txt/x",
        "x\0",
        "data/link/x",
    ] {
        assert_found(65, "is not a valid path", entry(file(path)));
    }
    assert_found(
        65,
        "does not have a relative target",
        entry(json!({ "path": "l", "kind": "link", "target": "/etc", "bytes": 4 })),
    );
    assert_found(65, "name of the skill's folder", |recorded| recorded["skill"] = "../sk".into());
    assert_found(65, "is not a guest path", |recorded| {
        recorded["folders"][0]["guest"] = "x".into()
    });
    assert_found(65, "is not a digest", |recorded| {
        let stdin = recorded["stdin"]["digest"].as_str().unwrap().to_owned();
        recorded["blobs"][&stdin] = "sha256:../../../../etc/passwd".into();
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    /// No text in a recording, even with adjusted digests, can name anything outside of it.
    #[test]
    fn no_text_leads_out_of_the_folders(at in any::<prop::sample::Index>(), with in prop::sample::select(vec!["..", "/", "\0", "", "a/b", "sha256:", "{{secret:x:y}}"])) {
        let mut recorded = recording(&GENUINE.path("rec"));
        let mut texts = 0;
        each(&mut recorded, &mut |_| texts += 1);
        let (selected, mut count) = (at.index(texts), 0);
        each(&mut recorded, &mut |text| {
            if count == selected {
                *text = with.into();
            }
            count += 1;
        });
        recorded.as_object_mut().unwrap().remove("digest");
        recorded["digest"] = folder::digest(&recorded).into();
        if let Ok(read) = folder::parse(&folder::text(&recorded).unwrap()) {
            let plain = |path: &str| path.split('/').all(|name| !name.is_empty() && name != "." && name != ".." && !name.contains('\0'));
            prop_assert!(plain(&read.skill) && !read.skill.contains('/'));
            prop_assert!(read.folders.iter().flat_map(|folder| &folder.entries).all(|entry| plain(&entry.path)));
        }
    }
}

/// Calls a function with each text of a value.
fn each(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| each(value, change)),
        Value::Object(entries) => entries.values_mut().for_each(|value| each(value, change)),
        _ => {}
    }
}
