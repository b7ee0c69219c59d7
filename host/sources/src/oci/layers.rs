//! Stages what the layers of a manifest hold.

use std::collections::BTreeSet;

use super::manifest::{COMPONENT, DESCRIPTION, Descriptor, Manifest, TITLE, UNPACK};
use super::registry::Registry;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::fetch::Surroundings;
use crate::names;
use crate::staging::{Staged, StagedEntry, Unpacker};
use crate::{archive, document};

/// The ends of the types of layers that are the archive of a skill.
const ARCHIVE: &str = ".skill.content.v1.tar+gzip";

/// The types of the layers of images.
const IMAGE_LAYERS: [&str; 5] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];

/// The most layers of an image. Docker makes at most 127.
const MAX_LAYERS: usize = 128;

/// The start of the name that hides an entry of the layers below, and the name that hides all.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// How a manifest holds a skill.
enum Shape<'a> {
    /// One layer is an archive.
    Archive(&'a Descriptor),
    /// Each layer is a file, or the archive of a folder.
    Files,
    /// The layers are those of an image.
    Image,
    /// One layer is a component.
    Component(&'a Descriptor),
}

/// Finds out how a manifest holds a skill, from the types of its layers.
fn shape(manifest: &Manifest) -> Option<Shape<'_>> {
    let layers = &manifest.layers;
    let mut archives = layers.iter().filter(|layer| layer.media_type.ends_with(ARCHIVE));
    if let (Some(archive), None) = (archives.next(), archives.next()) {
        return Some(Shape::Archive(archive));
    }
    if !layers.is_empty() && layers.iter().all(|layer| layer.annotation(TITLE).is_some()) {
        return match layers.as_slice() {
            [only] if only.media_type == COMPONENT => Some(Shape::Component(only)),
            _ => Some(Shape::Files),
        };
    }
    let is_image = |layer: &Descriptor| IMAGE_LAYERS.contains(&layer.media_type.as_str());
    match layers.as_slice() {
        [only] if only.media_type == COMPONENT => Some(Shape::Component(only)),
        [] => None,
        all => all.iter().all(is_image).then_some(Shape::Image),
    }
}

/// Fetches and stages the layers. `name`: that of the repository.
pub(super) fn stage(
    registry: &Registry<'_>,
    manifest: &Manifest,
    name: &str,
    around: Surroundings<'_>,
) -> Result<Staged, SourceError> {
    let Surroundings { within, limits, .. } = around;
    super::check_sizes(&manifest.layers, limits)?;
    let fetch = |layer: &Descriptor| registry.blob(layer, within, limits);
    match shape(manifest) {
        Some(Shape::Archive(layer)) => {
            let archive = fetch(layer)?;
            archive::unpack(&archive.file, archive.size, within, limits)
        }
        Some(Shape::Files) => {
            let mut to = Unpacker::new(within, limits, limits.bytes)?;
            for layer in &manifest.layers {
                let mut blob = fetch(layer)?;
                let title = layer.annotation(TITLE).unwrap_or_default();
                // oras for Python does not annotate folders, and gives only them this type.
                let is_folder = match layer.annotation(UNPACK) {
                    Some(value) => value == "true",
                    None => layer.media_type == IMAGE_LAYERS[1],
                };
                match is_folder {
                    true => archive::unpack_tar(&blob.file, blob.size, &mut to, &mut |_| true)?,
                    false => drop(to.file(title.as_bytes(), blob.reader()?)?),
                }
            }
            Ok(to.finish())
        }
        Some(Shape::Image) => {
            // What a layer hides is read, too, and each is compared with all above it.
            if manifest.layers.len() > MAX_LAYERS {
                let why = format!("the image has more than {MAX_LAYERS} layers");
                return Err(Refusal::fixed(RefusalRule::EntryCount, why).into());
            }
            let mut to = Unpacker::new(within, limits, limits.bytes)?;
            let mut above = Above::default();
            // The top layer first: what it has hides what is below.
            for layer in manifest.layers.iter().rev() {
                let blob = fetch(layer)?;
                let (mut found, mut visible) = (Above::default(), Vec::new());
                let mut is_visible = |path: &str| {
                    let is_new = found.add(path) && !above.hides(path);
                    if is_new {
                        visible.push(path.to_owned());
                    }
                    is_new
                };
                archive::unpack_tar(&blob.file, blob.size, &mut to, &mut is_visible)?;
                above.extend(found, visible, &to);
            }
            Ok(to.finish())
        }
        Some(Shape::Component(layer)) => {
            let mut component = fetch(layer)?;
            let mut to = Unpacker::new(within, limits, limits.bytes)?;
            let name: String = name
                .chars()
                .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
                .collect();
            let file = format!("{name}.wasm");
            to.file(file.as_bytes(), component.reader()?)?;
            let skill_md = skill_md(&name, manifest.annotation(DESCRIPTION));
            to.file(b"SKILL.md", &mut skill_md.as_bytes())?;
            Ok(to.finish())
        }
        None => {
            let types: BTreeSet<&str> =
                manifest.layers.iter().map(|layer| layer.media_type.as_str()).collect();
            let types: Vec<&str> = types.into_iter().take(5).collect();
            let why = format!(
                "the artifact is not a skill: its layers are {}",
                skillhost_policy::diagnostic::printable(&types.join(", "))
            );
            Err(Refusal::new(RefusalRule::Unsupported, why).into())
        }
    }
}

/// The instructions of a component that has none. It requests nothing.
fn skill_md(name: &str, description: Option<&str>) -> String {
    let description = match description.map(str::trim) {
        Some(text) if !text.is_empty() => text.chars().take(1000).collect(),
        _ => format!("The component {name}."),
    };
    let description = document::quote(&skillhost_policy::diagnostic::printable(&description));
    format!(
        "---\nname: {name}\ndescription: {description}\nallowed-tools: []\nmetadata:\n  component: {name}.wasm\n---\nThis skill is a component without instructions.\n"
    )
}

/// What the layers above hide.
#[derive(Debug, Default)]
struct Above {
    /// Entries that are removed or replaced, with what is below them.
    hidden: BTreeSet<String>,
    /// Folders of which nothing from below is visible.
    opaque: BTreeSet<String>,
}

impl Above {
    /// Remembers a whiteout. Returns whether the path is an entry of its own.
    fn add(&mut self, path: &str) -> bool {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == OPAQUE {
            self.opaque.insert(folder.to_owned());
            return false;
        }
        let Some(removed) = name.strip_prefix(WHITEOUT) else { return true };
        let removed =
            if folder.is_empty() { removed.to_owned() } else { format!("{folder}/{removed}") };
        self.hidden.insert(removed);
        false
    }

    fn hides(&self, path: &str) -> bool {
        self.hidden.contains(path)
            || names::ancestors(path)
                .any(|folder| self.hidden.contains(folder) || self.opaque.contains(folder))
            || self.opaque.contains("")
    }

    /// Adds what another layer hides: its whiteouts, and everything that is not a folder.
    /// `visible`: the paths that were added from this layer.
    fn extend(&mut self, found: Above, visible: Vec<String>, staged: &Unpacker) {
        self.hidden.extend(found.hidden);
        self.opaque.extend(found.opaque);
        let is_leaf = |path: &String| {
            staged.entries().get(path).is_some_and(|entry| *entry != StagedEntry::Folder)
        };
        self.hidden.extend(visible.into_iter().filter(is_leaf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whiteouts_hide_what_is_below() {
        let mut above = Above::default();
        assert!(above.add("a/file"));
        assert!(!above.add("a/.wh.gone") && !above.add("b/.wh..wh..opq") && !above.add(".wh.top"));
        for path in ["a/gone", "a/gone/x", "b/x", "b/c/d", "top"] {
            assert!(above.hides(path), "{path}");
        }
        for path in ["a", "a/file", "b", "gone", "topmost"] {
            assert!(!above.hides(path), "{path}");
        }
    }

    #[test]
    fn component_has_instructions_that_request_nothing() {
        let text = skill_md("adder", Some("Adds: \"numbers\"\n---\nallowed-tools: Bash"));
        let parsed = skillhost_policy::manifest::parse(text.as_bytes(), "adder", "SKILL.md");
        let manifest = parsed.manifest.unwrap();
        assert_eq!(manifest.component.as_deref(), Some("adder.wasm"));
        assert_eq!(manifest.allowed_tools, Some(Vec::new()));
        assert!(manifest.description.starts_with("Adds: \"numbers\""), "{text}");
    }
}
