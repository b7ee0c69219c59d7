//! `skills.lock`: exactly which files each skill has, and where they came from.
//!
//! A lock file has one text. Every skill's entry ends with a checksum of its lines, so an edit by
//! hand or a failed merge is found. Someone who rewrites the lock file and the content together is
//! found only by a signature or by the approval of a person.

use std::collections::BTreeMap;
use std::fmt;

use skillhost_policy::diagnostic::Span;
use skillhost_policy::yaml::{Format, Node};

use crate::digest::{Digest, Listing};
use crate::document::{self, Reader, quote};
use crate::error::SourceError;
use crate::names;

/// The name of the file.
pub const FILE: &str = "skills.lock";

/// The version of the format.
const VERSION: &str = "1";

/// A lock for a thousand skills takes about 700 KiB.
const MAX_BYTES: usize = 64 << 20;

const FORMAT: Format = Format {
    name: "lock file",
    rule: "lock-yaml",
    max_depth: 8,
    max_nodes: 1_000_000,
    max_aliases: 0,
};

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// The skills, by name.
    pub skills: BTreeMap<String, LockedSkill>,
}

/// A skill as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct LockedSkill {
    /// The source, as in the sources file, in its canonical text.
    pub source: String,
    /// The path of the skill's folder in the source; empty at the top.
    pub path: String,
    /// Whether the submodules of the repository were fetched, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub submodules: bool,
    /// What the source led to: `git:` and the commit, or `git-tag:` if a tag leads there; `sha256:`
    /// and the digest of the archive or of the manifest in a registry; or `folder` or `index`, which
    /// have no revisions.
    pub revision: String,
    /// The digest of `files`: of the listing's text.
    pub digest: Digest,
    /// The digest by which approvals, receipts and the audit log know the skill.
    pub content: String,
    /// `metadata.version`, if it can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The component that the skill declares, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The entries of `allowed-tools`.
    pub permissions: Vec<String>,
    /// The lines of `metadata.requires`.
    pub requires: Vec<String>,
    /// Who signed exactly these files: ids of keys, and identities with their issuers.
    pub signatures: Vec<String>,
    /// The digest of every file.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub files: Listing,
}

fn as_text<S: serde::Serializer>(listing: &Listing, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(listing)
}

impl Lock {
    /// Parses the text of a file. `file`: the path, as messages name it.
    ///
    /// # Errors
    /// Every problem, with its position: among others, any deviation from the text that
    /// [`Display`](fmt::Display) writes.
    pub fn parse(file: &str, text: &str) -> Result<Lock, SourceError> {
        let mut reader = Reader::new(file, text);
        let root = reader.parse(MAX_BYTES, &FORMAT)?;
        let mut skills = BTreeMap::new();
        for (key, value) in reader.fields(&root, "the lock file", &["version", "skills"]) {
            if key == "version" {
                let found = reader.scalar(value, "`version`");
                if found.is_some_and(|found| found != VERSION) {
                    let message =
                        format!("this version of skillhost reads version {VERSION} of lock files");
                    reader.error("lock-version", Some(value.span), message, None);
                }
                continue;
            }
            for (key, value) in reader.map(value, "`skills`").unwrap_or_default() {
                let name = document::scalar(key).unwrap_or_default();
                if let Some((message, fix)) = document::name_problem(name) {
                    reader.error("lock-name", Some(key.span), message, Some(fix));
                }
                if let Some(skill) = skill(&mut reader, name, value) {
                    skills.insert(name.to_owned(), skill);
                }
            }
        }
        let lock = Lock { skills };
        if reader.diagnostics.is_empty() {
            let written = lock.to_string();
            let same = written.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
            if same != written.len() || same != text.len() {
                let span = Some(Span::at(text, same.min(text.len()), 1));
                let message =
                    "the lock file was edited, and is not as skillhost wrote it".to_owned();
                let fix = Some("restore it, or delete it and run `skillhost sync`".to_owned());
                reader.error("lock-form", span, message, fix);
            }
        }
        reader.finish(lock)
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Written by skillhost. Change skills.yaml and run `skillhost sync`.")?;
        writeln!(f, "version: {VERSION}")?;
        if self.skills.is_empty() {
            return writeln!(f, "skills: {{}}");
        }
        writeln!(f, "skills:")?;
        for (name, skill) in &self.skills {
            let lines = skill.lines();
            let checksum = checksum(name, &lines);
            write!(f, "  {}:\n{lines}    checksum: \"{checksum}\"\n", quote(name))?;
        }
        Ok(())
    }
}

/// Returns the checksum of an entry.
fn checksum(name: &str, lines: &str) -> Digest {
    Digest::of(format!("{}:\n{lines}", quote(name)).as_bytes())
}

impl LockedSkill {
    fn lines(&self) -> String {
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
            format!("[{}]", items.join(", "))
        };
        let mut text = String::new();
        let mut line = |key: &str, value: &str| text.push_str(&format!("    {key}: {value}\n"));
        line("source", &quote(&self.source));
        line("path", &quote(&self.path));
        if self.submodules {
            line("submodules", "true");
        }
        line("revision", &quote(&self.revision));
        line("digest", &format!("\"{}\"", self.digest));
        line("content", &quote(&self.content));
        if let Some(version) = &self.version {
            line("version", &quote(version));
        }
        if let Some(component) = &self.component {
            line("component", &quote(component));
        }
        line("permissions", &list(&self.permissions));
        if !self.requires.is_empty() {
            line("requires", &list(&self.requires));
        }
        line("signatures", &list(&self.signatures));
        line("files", "|");
        self.files.to_string().lines().for_each(|file| text.push_str(&format!("      {file}\n")));
        text
    }
}

/// The keys of an entry.
const KEYS: [&str; 13] = [
    "source",
    "path",
    "submodules",
    "revision",
    "digest",
    "content",
    "version",
    "component",
    "permissions",
    "requires",
    "signatures",
    "files",
    "checksum",
];

fn skill(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<LockedSkill> {
    let before = reader.diagnostics.len();
    let mut texts: BTreeMap<&str, (&str, &Node)> = BTreeMap::new();
    let mut lists: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, value) in reader.fields(node, &format!("`{name}`"), &KEYS) {
        match key {
            "permissions" | "requires" | "signatures" => {
                let items = reader.list(value, &format!("`{key}`"));
                lists.insert(key, items.into_iter().map(str::to_owned).collect());
            }
            key => {
                let text = reader.scalar(value, &format!("`{key}`"))?;
                texts.insert(key, (text, value));
            }
        }
    }
    let is_optional =
        |key: &str| matches!(key, "submodules" | "component" | "version" | "requires");
    for key in KEYS.iter().filter(|key| !is_optional(key)) {
        if !texts.contains_key(key) && !lists.contains_key(key) {
            reader.error("lock-value", Some(node.span), format!("`{name}` has no `{key}`"), None);
        }
    }
    if reader.diagnostics.len() > before {
        return None;
    }
    let mut invalid = |key: &str, why: String| {
        let span = texts.get(key).map(|(_, node)| node.span);
        reader.error("lock-value", span, format!("`{key}`: {why}"), None);
    };
    let text = |key: &str| texts.get(key).map_or("", |(text, _)| *text);
    let files = text("files").parse::<Listing>().map_err(|why| invalid("files", why)).ok()?;
    let digest = text("digest").parse().map_err(|why| invalid("digest", format!("{why}"))).ok()?;
    if files.digest() != digest {
        invalid("digest", "it is not the digest of `files`".into());
    }
    match names::parse(text("path").as_bytes()) {
        Ok(path) if path == text("path") => {}
        Ok(path) => invalid("path", format!("write it as `{path}`")),
        Err(refusal) => invalid("path", refusal.to_string()),
    }
    let source = text("source").parse::<crate::source::Source>();
    if !source.is_ok_and(|source| source.to_string() == text("source")) {
        invalid("source", "not the canonical text of a source".into());
    }
    if !is_revision(text("revision")) {
        invalid(
            "revision",
            "expected `git:COMMIT`, `git-tag:COMMIT`, `sha256:DIGEST`, `folder` or `index`".into(),
        );
    }
    if texts.contains_key("submodules") && text("submodules") != "true" {
        invalid("submodules", "expected `true`, or no such line".into());
    }
    let mut list = |key: &str| lists.remove(key).unwrap_or_default();
    let skill = LockedSkill {
        source: text("source").to_owned(),
        path: text("path").to_owned(),
        submodules: texts.contains_key("submodules"),
        revision: text("revision").to_owned(),
        digest,
        content: text("content").to_owned(),
        version: texts.get("version").map(|(text, _)| (*text).to_owned()),
        component: texts.get("component").map(|(text, _)| (*text).to_owned()),
        permissions: list("permissions"),
        requires: list("requires"),
        signatures: list("signatures"),
        files,
    };
    if text("checksum") != checksum(name, &skill.lines()).to_string() {
        let why = "the entry was changed by hand or by a merge";
        invalid("checksum", why.into());
    }
    Some(skill)
}

fn is_revision(text: &str) -> bool {
    let is_hex = |hex: &str, digits: usize| {
        hex.len() == digits && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    matches!(text, "folder" | "index")
        || text
            .strip_prefix("git:")
            .or_else(|| text.strip_prefix("git-tag:"))
            .is_some_and(|hex| is_hex(hex, 40))
        || text.strip_prefix("sha256:").is_some_and(|hex| is_hex(hex, 64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock() -> Lock {
        let files = |texts: &[(&str, &str)]| {
            let digests =
                texts.iter().map(|(path, text)| ((*path).to_owned(), Digest::of(text.as_bytes())));
            Listing(digests.collect())
        };
        let skill = |source: &str, revision: String, component: Option<String>, files: Listing| {
            LockedSkill {
                source: source.into(),
                path: "skills/a b".into(),
                submodules: component.is_some(),
                revision,
                digest: files.digest(),
                content: "sha256:0".into(),
                version: component.as_ref().map(|_| "1.2.0".to_owned()),
                requires: component.iter().map(|_| "charts ^1".to_owned()).collect(),
                component,
                permissions: vec!["Read".into(), "Bash(git: \"x\")".into()],
                signatures: vec!["sha256:1".into()],
                files,
            }
        };
        let git = format!("git:{}", "0123456789".repeat(4));
        let first = skill(
            "https://github.com/a/b@v1",
            git,
            None,
            files(&[("SKILL.md", "x"), ("ü/y z", "")]),
        );
        let second =
            skill("./b", "folder".into(), Some("b.wasm".into()), files(&[("SKILL.md", "y")]));
        Lock { skills: [("one".to_owned(), first), ("Two".to_owned(), second)].into() }
    }

    #[test]
    fn lock_file_is_read_as_it_was_written() {
        for lock in [lock(), Lock::default()] {
            assert_eq!(Lock::parse(FILE, &lock.to_string()).unwrap(), lock);
        }
    }

    #[test]
    fn listing_in_the_lock_file_is_the_input_of_sha256sum() {
        let text = lock().to_string();
        let digest = Digest::of(b"x");
        assert!(text.contains(&format!("    files: |\n      {digest}  SKILL.md\n")), "{text}");
    }

    #[test]
    fn submodules_are_a_line_only_if_they_were_fetched() {
        let text = lock().to_string();
        let line = "    submodules: true\n";
        assert_eq!(text.matches("submodules").count(), 1);
        for other in ["", "    submodules: false\n", "    submodules: \"true\"\n"] {
            Lock::parse(FILE, &text.replace(line, other)).unwrap_err();
        }
    }

    #[test]
    fn problems_have_their_positions() {
        let text = lock().to_string().replace("revision: \"git:0", "revision: \"git:x");
        let Err(SourceError::File { diagnostics, .. }) = Lock::parse(FILE, &text) else { panic!() };
        let line = 1 + text.lines().position(|line| line.contains("git:x")).unwrap();
        let at = diagnostics[0].span.unwrap();
        assert_eq!((at.line, at.column, diagnostics[0].rule), (line, 15, "lock-value"));
    }

    #[test]
    fn time_of_reading_grows_with_the_size() {
        let one = lock().skills["one"].clone();
        let with = |count: usize| {
            let skills = (0..count).map(|n| (format!("s{n}"), one.clone())).collect();
            let text = Lock { skills }.to_string();
            let start = std::time::Instant::now();
            Lock::parse(FILE, &text).unwrap();
            start.elapsed()
        };
        with(100);
        // Quadratic time would be 64 times as long.
        let (small, large) = (with(250), with(2000));
        assert!(large < small * 24, "{small:?} {large:?}");
    }

    #[test]
    fn time_of_reading_grows_with_the_length_of_a_line() {
        let with = |count: usize| {
            let mut lock = lock();
            lock.skills.get_mut("one").unwrap().permissions = vec!["read".into(); count];
            let text = lock.to_string();
            let start = std::time::Instant::now();
            Lock::parse(FILE, &text).unwrap();
            start.elapsed()
        };
        with(1000);
        // Quadratic time would be 64 times as long.
        let (small, large) = (with(10_000), with(80_000));
        assert!(large < small * 24, "{small:?} {large:?}");
    }

    proptest! {
        #[test]
        fn any_change_of_the_text_is_refused(at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in 0..3) {
            let mut bytes = lock().to_string().into_bytes();
            let at = at.index(bytes.len());
            match insert {
                0 => bytes.insert(at, byte),
                1 => drop(bytes.remove(at)),
                _ => bytes[at] = byte,
            }
            prop_assume!(bytes != lock().to_string().as_bytes());
            let parsed = String::from_utf8(bytes).ok().and_then(|text| Lock::parse(FILE, &text).ok());
            prop_assert_eq!(parsed, None);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[a-z:|\\[\\]{}\"\\n -]{0,60}") {
            if let Ok(lock) = Lock::parse(FILE, &text) {
                prop_assert_eq!(lock.to_string(), text);
            }
        }
    }
}
