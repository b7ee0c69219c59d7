//! What is known of a skill that is not loaded, from its SKILL.md and the names beside it.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{Entry, SourceKind};
use crate::diagnostic::Severity;
use crate::policy::entry::{self, Side, Tool};
use crate::runtime;
use crate::skill::Caps;
use crate::skill::manifest::{self, Manifest};
use crate::skill::scan::{self, Found};

/// Names in `scripts/` that are looked at: enough to tell the languages.
const MAX_SCRIPTS: usize = 200;

/// What a skill's programs run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A WASI component of its own.
    Component,
    /// Python scripts.
    Python,
    /// Shell scripts.
    Shell,
    /// Nothing runs: it is a text for agents.
    Instructions,
}

impl Runtime {
    /// Each.
    pub const ALL: [Runtime; 4] = [Runtime::Component, Runtime::Python, Runtime::Shell, Runtime::Instructions];
}

/// A set of [`Runtime`]s. One that holds no other holds [`Runtime::Instructions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runtimes(u8);

impl Runtimes {
    /// Whether it is one of them.
    pub fn contains(self, runtime: Runtime) -> bool {
        match runtime {
            Runtime::Instructions => self.0 == 0,
            other => self.0 & (1 << other as u8) != 0,
        }
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Runtime> {
        Runtime::ALL.into_iter().filter(move |runtime| self.contains(*runtime))
    }
}

impl FromIterator<Runtime> for Runtimes {
    fn from_iter<I: IntoIterator<Item = Runtime>>(all: I) -> Runtimes {
        Runtimes(all.into_iter().filter(|one| *one != Runtime::Instructions).fold(0, |set, one| set | 1 << one as u8))
    }
}

impl Serialize for Runtimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Reads a skill's SKILL.md, or says why it is none.
pub(super) fn read(found: &Found, source: &Path, kind: SourceKind) -> Result<Entry, String> {
    let folder = scan::at(source, &found.path);
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let bytes = found.read(Caps::default().skill_md).map_err(|error| format!("{} cannot be read: {error}", found.skill_file))?;
    let parsed = manifest::parse(&bytes, &name, &found.skill_file);
    let Some(manifest) = parsed.manifest else {
        let worst = parsed.diagnostics.iter().find(|d| d.severity == Severity::Error);
        return Err(worst.map_or_else(|| "it does not load".to_owned(), |d| format!("{} ({})", d.message, d.rule)));
    };
    Ok(Entry {
        name: name.into(),
        description: manifest.description.as_str().into(),
        digest: runtime::digest(&bytes).into(),
        folder: folder.into(),
        skill_file: found.skill_file.as_str().into(),
        source: kind,
        trusted: kind.is_trusted(),
        tags: tags(&manifest),
        runtimes: runtimes(found, &manifest),
        network: network(&manifest),
        recovered: manifest.recovered,
    })
}

fn tags(manifest: &Manifest) -> Arc<[Box<str>]> {
    let values = ["category", "tags"].into_iter().filter_map(|key| manifest.metadata.get(key));
    let words = values.flat_map(|value| value.split([',', ';'])).map(|word| word.trim().to_lowercase());
    words.filter(|word| !word.is_empty()).map(Box::from).collect()
}

fn network(manifest: &Manifest) -> bool {
    let asked = manifest.allowed_tools.iter().flatten();
    asked.into_iter().any(|tool| matches!(entry::parse(&tool.text, Side::Asked), Tool::WebFetch(_)))
}

fn runtimes(found: &Found, manifest: &Manifest) -> Runtimes {
    let scripts = if found.names.iter().any(|name| name == "scripts") { found.names_in("scripts", MAX_SCRIPTS) } else { Vec::new() };
    let languages = found.names.iter().chain(&scripts).filter_map(|name| match name.rsplit_once('.')?.1 {
        "py" => Some(Runtime::Python),
        "sh" | "bash" => Some(Runtime::Shell),
        _ => None,
    });
    manifest.component.iter().map(|_| Runtime::Component).chain(languages).collect()
}
