//! Skills that a server publishes at `/.well-known/agent-skills/`, by version 0.2 of the draft for
//! their discovery: an index that names one artifact per skill, with its digest.

use serde::Deserialize;
use skillhost_policy::diagnostic::printable;

use crate::archive;
use crate::document::is_name;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::fetch::{Fetched, Offer, Selection, Surroundings};
use crate::limits::TransferLimits;
use crate::network::{self, Network};
use crate::staging::Unpacker;
use crate::transfer::Transfer;

/// The most bytes of an index: about 10,000 skills.
pub(crate) const MAX_INDEX: u64 = 8 << 20;

/// What the URI of the schema starts with for the versions that are read.
const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.";

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(rename = "$schema")]
    schema: String,
    skills: Vec<Entry>,
}

/// A skill of an index.
#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    /// Clients ignore types that they do not know.
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    description: String,
    url: String,
    digest: String,
}

impl Entry {
    fn is_known(&self) -> bool {
        matches!(self.kind.as_str(), "skill-md" | "archive")
    }
}

/// Returns the skills that an index offers.
pub(crate) fn offers(place: &str, network: &dyn Network) -> Result<Vec<Offer>, SourceError> {
    let entries = index(place, network)?.1;
    let offer = |entry: Entry| Offer { path: entry.name, description: entry.description };
    Ok(entries.into_iter().map(offer).collect())
}

/// Fetches the selected skills, each into a folder of its name.
pub(crate) fn fetch(
    place: &str,
    selection: Selection<'_>,
    around: Surroundings<'_>,
    network: &dyn Network,
) -> Result<Fetched, SourceError> {
    let (url, entries) = index(place, network)?;
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let chosen = selection.choose(&names)?;
    let Surroundings { within, limits, .. } = around;
    let mut to = Unpacker::new(within, limits, limits.bytes)?;
    let mut left = limits.bytes;
    for entry in chosen.iter().map(|at| &entries[*at]) {
        let artifact = resolve(&url, &entry.url)?;
        let expected = entry.digest.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
        let (_, mut response) = network::get(network, &artifact, &[])?;
        let remaining = TransferLimits { bytes: left, ..limits.clone() };
        let mut transfer = Transfer::receive(within, &remaining, &mut response.body)?;
        left -= transfer.size;
        if expected != Some(transfer.digest) {
            let why = format!(
                "{} does not have the digest that the index names: it is sha256:{}",
                printable(&artifact),
                transfer.digest
            );
            return Err(Refusal::at(RefusalRule::Corrupt, entry.name.as_bytes(), why).into());
        }
        to.enter(&entry.name)?;
        match entry.kind.as_str() {
            "archive" => archive::unpack_into(&transfer.file, transfer.size, &mut to)?,
            _ => drop(to.file(b"SKILL.md", transfer.reader()?)?),
        }
    }
    Ok(Fetched {
        staged: to.finish(),
        revision: "index".to_owned(),
        is_partial: chosen.len() < entries.len(),
        objects: None,
    })
}

/// Fetches and checks the index. Returns its URL, and the skills whose type is known.
fn index(place: &str, network: &dyn Network) -> Result<(String, Vec<Entry>), SourceError> {
    let (url, mut response) = network::get(network, &format!("{place}/index.json"), &[])?;
    let text = response.bytes(&url, MAX_INDEX)?;
    let invalid = |why: String| Refusal::at(RefusalRule::Corrupt, b"index.json", why);
    let Index { schema, mut skills } =
        serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
    if !schema.starts_with(SCHEMA) {
        let why = format!("`$schema` is `{}`, and only 0.2 is supported", printable(&schema));
        return Err(Refusal::at(RefusalRule::Unsupported, b"index.json", why).into());
    }
    skills.retain(Entry::is_known);
    let mut names = std::collections::BTreeSet::new();
    for entry in &skills {
        if !is_name(&entry.name) {
            return Err(invalid(format!("`{}` is not a name", printable(&entry.name))).into());
        }
        if !names.insert(entry.name.to_ascii_lowercase()) {
            return Err(invalid(format!("the name `{}` occurs twice", entry.name)).into());
        }
    }
    Ok((url, skills))
}

/// Resolves the reference of an artifact against the URL of the index.
fn resolve(index: &str, reference: &str) -> Result<String, SourceError> {
    let has_scheme = reference.contains("://") || reference.starts_with('/');
    let is_plain = !reference.is_empty()
        && !reference.chars().any(|char| char.is_control() || matches!(char, '\\' | ' ' | '#'))
        && !reference.split(['/', '?']).any(|name| name == "..");
    match (is_plain, has_scheme) {
        (true, true) => network::redirected(index, reference),
        (true, false) if !reference.split('/').next().is_some_and(|name| name.contains(':')) => {
            let folder = index.rsplit_once('/').map_or(index, |(folder, _)| folder);
            Ok(format!("{folder}/{}", reference.trim_start_matches("./")))
        }
        _ => {
            let why = format!("the URL `{}` in the index is not used", printable(reference));
            Err(network::problem(index, why))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use std::collections::BTreeMap;
    use std::io::Cursor;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};

    use super::*;
    use crate::digest::Digest;
    use crate::network::{Request, Response};
    use crate::skills;

    const PLACE: &str = "https://host/.well-known/agent-skills";
    const SKILL_MD: &[u8] = b"---\nname: one\ndescription: Tests.\n---\n";

    /// A server with some files.
    struct Files(BTreeMap<String, Vec<u8>>);

    impl Network for Files {
        fn send(&self, request: &Request) -> Result<Response, SourceError> {
            let found = self.0.get(&request.url);
            let status = if found.is_some() { 200 } else { 404 };
            let body = Box::new(Cursor::new(found.cloned().unwrap_or_default()));
            Ok(Response { status, headers: Vec::new(), body })
        }
    }

    fn archive() -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in [("SKILL.md", SKILL_MD), ("scripts/a.py", b"print()")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, content).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn entry(name: &str, kind: &str, url: &str, content: &[u8]) -> Value {
        let digest = format!("sha256:{}", Digest::of(content));
        json!({ "name": name, "type": kind, "description": "d", "url": url, "digest": digest })
    }

    fn server(skills: &[Value], files: &[(&str, &[u8])]) -> Files {
        let schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
        let index = json!({ "$schema": schema, "skills": skills }).to_string();
        let files = files.iter().map(|(url, content)| ((*url).to_owned(), content.to_vec()));
        let index = (format!("{PLACE}/index.json"), index.into_bytes());
        Files(files.chain([index]).collect())
    }

    fn fetched(server: &Files, selection: Selection<'_>) -> Result<Fetched, SourceError> {
        let within = tempfile::tempdir().unwrap();
        let limits = TransferLimits::default();
        let around = Surroundings {
            base: within.path(),
            home: within.path(),
            within: within.path(),
            limits: &limits,
            submodules: false,
        };
        fetch(PLACE, selection, around, server)
    }

    #[test]
    fn artifacts_of_both_types_are_fetched() {
        let archive = archive();
        let md = format!("{PLACE}/one/SKILL.md");
        let server = server(
            &[
                entry("one", "skill-md", "/.well-known/agent-skills/one/SKILL.md", SKILL_MD),
                entry("two", "archive", "two.tar.gz", &archive),
                entry("new", "something-else", "x", b""),
            ],
            &[(&md, SKILL_MD), (&format!("{PLACE}/two.tar.gz"), &archive)],
        );
        let all = fetched(&server, Selection::All).unwrap();
        assert_eq!(skills::find(&all.staged, ""), ["one", "two"]);
        assert!(all.staged.entries.contains_key("two/scripts/a.py") && !all.is_partial);
        let one = fetched(&server, Selection::Named("two")).unwrap();
        assert!(skills::find(&one.staged, "") == ["two"] && one.is_partial);
        let error = fetched(&server, Selection::Only).unwrap_err();
        assert!(error.fix().unwrap().contains("--path one"), "{:?}", error.fix());
        assert!(fetched(&server, Selection::Named("new")).is_err());
        let names = offers(PLACE, &server).unwrap().into_iter().map(|offer| offer.path);
        assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
    }

    #[test]
    fn indexes_and_artifacts_that_contradict_themselves_are_refused() {
        let md = format!("{PLACE}/SKILL.md");
        let one = |url: &str, content: &[u8]| entry("one", "skill-md", url, content);
        let good = one("SKILL.md", SKILL_MD);
        let with = |key: &str, value: Value| {
            let mut entry = good.clone();
            entry[key] = value;
            entry
        };
        let cases = [
            vec![one("SKILL.md", b"other")],
            vec![with("digest", json!("md5:00"))],
            vec![with("name", json!("../x"))],
            vec![with("url", json!("../../SKILL.md"))],
            vec![with("url", json!("http://host/SKILL.md"))],
            vec![with("url", json!("//evil/SKILL.md"))],
            vec![with("url", json!("javascript:x"))],
            vec![with("url", json!(""))],
            vec![good.clone(), with("name", json!("ONE"))],
        ];
        fetched(&server(std::slice::from_ref(&good), &[(&md, SKILL_MD)]), Selection::Only).unwrap();
        for skills in cases {
            let server = server(&skills, &[(&md, SKILL_MD)]);
            assert!(fetched(&server, Selection::All).is_err(), "{skills:?}");
        }
        let mut old = server(&[good], &[(&md, SKILL_MD)]);
        let index = json!({ "$schema": "https://schemas.agentskills.io/discovery/1.0.0/schema.json", "skills": [] });
        old.0.insert(format!("{PLACE}/index.json"), index.to_string().into_bytes());
        assert!(fetched(&old, Selection::All).is_err());
    }
}
