//! Compares the imports of a component with the permissions that its skill requests.

use skillhost_policy::manifest::{Manifest, ToolEntry};
use skillhost_policy::{Policy, grant};
use skillhost_sandbox::world::{World, read};

use crate::cli::guest;

/// Returns the findings for a component with these imports in a skill with these entries.
fn unasked(imports: &[&str], entries: &[&str]) -> Vec<String> {
    let entry = |text: &&str| ToolEntry { text: (*text).to_owned(), span: None };
    let manifest = Manifest {
        name: "demo".into(),
        description: "d".into(),
        allowed_tools: Some(entries.iter().map(entry).collect()),
        ..Manifest::default()
    };
    let world = World {
        imports: imports.iter().map(|name| (*name).to_owned()).collect(),
        exports: Vec::new(),
        wit: String::new(),
    };
    world.unasked(&grant(&manifest, &Policy::allow_everything()).capabilities)
}

#[test]
fn only_imports_without_an_entry_are_reported() {
    for (import, entry, word) in [
        ("wasi:http/client@0.3.0", "WebFetch(domain:example.com)", "WebFetch"),
        ("wasi:http/outgoing-handler@0.2.0", "WebFetch(domain:example.com)", "WebFetch"),
        ("skillhost:skill/process@0.1.0", "Bash(jq:*)", "Bash"),
        ("wasi:filesystem/types@0.3.0", "Read", "Read"),
        ("wasi:filesystem/types@0.2.0", "Write(out/**)", "Read"),
    ] {
        let findings = unasked(&[import], &[]);
        assert!(findings.len() == 1 && findings[0].contains(word), "{import}: {findings:?}");
        assert_eq!(unasked(&[import], &[entry]), Vec::<String>::new(), "{import} with {entry}");
    }
}

#[test]
fn an_import_of_sockets_is_always_reported() {
    assert_eq!(
        unasked(&["wasi:sockets/types@0.3.0"], &["Read", "Write", "Bash", "WebFetch"]).len(),
        1
    );
}

#[test]
fn imports_of_every_guest_are_not_reported() {
    assert!(
        unasked(
            &[
                "wasi:cli/stdout@0.3.0",
                "wasi:clocks/monotonic-clock@0.3.0",
                "wasi:random/random@0.3.0"
            ],
            &[]
        )
        .is_empty()
    );
}

#[test]
fn a_world_is_read_from_the_binary() {
    let world = read(guest("unknown")).unwrap();
    assert_eq!(
        (world.imports, world.exports),
        (vec!["acme:database/query@1.0.0".to_owned()], vec!["wasi:cli/run@0.3.0".to_owned()])
    );
    assert!(world.wit.contains("export wasi:cli/run@0.3.0;"));
    assert!(
        read(guest("echo")).unwrap().offers_tools()
            && !read(guest("hello2")).unwrap().offers_tools()
    );
}

#[test]
fn files_that_are_not_components_are_reported() {
    assert!(read(b"hello").unwrap_err().contains("not a WebAssembly file"));
    assert!(read(b"\0asm\x01\0\0\0").unwrap_err().contains("core module"));
    assert!(read(b"\0asm\x0d\0\x01\0garbage").is_err());
}
