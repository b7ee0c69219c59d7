//! The manifests of skills: those that are read, and the one that is written.

use serde::Deserialize;
use serde_json::json;

use super::Publication;
use crate::digest::Digest;
use crate::error::{Refusal, RefusalRule, SourceError};

/// The kinds of manifests, the usual one first.
pub(super) const MANIFESTS: [&str; 4] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The type of a skill that is published.
pub(super) const SKILL: &str = "application/vnd.agent.skill.v1+json";
/// Its only layer: an archive.
pub(super) const CONTENT: &str = "application/vnd.agent.skill.content.v1.tar+gzip";
/// The type of a component, by the layout of the CNCF.
pub(super) const COMPONENT: &str = "application/wasm";
/// The path or name of what a layer holds.
pub(super) const TITLE: &str = "org.opencontainers.image.title";
/// What the artifact is for.
pub(super) const DESCRIPTION: &str = "org.opencontainers.image.description";
/// The version of the artifact.
const VERSION: &str = "org.opencontainers.image.version";
/// Whether a layer with a title is an archive of a folder.
pub(super) const UNPACK: &str = "io.deis.oras.content.unpack";

/// A manifest, or an index of manifests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Manifest {
    /// The layers of a manifest.
    pub(super) layers: Vec<Descriptor>,
    /// The manifests of an index.
    manifests: Vec<Descriptor>,
    annotations: Annotations,
}

type Annotations = std::collections::BTreeMap<String, String>;

impl Manifest {
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}

/// Names a blob or a manifest.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    #[serde(deserialize_with = "sha256")]
    pub(super) digest: Digest,
    pub(super) size: u64,
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(default)]
    platform: Option<Platform>,
}

impl Descriptor {
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Platform {
    architecture: String,
    os: String,
}

fn sha256<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digest = text.strip_prefix("sha256:").and_then(|hex| hex.parse().ok());
    digest.ok_or_else(|| serde::de::Error::custom("a digest is not SHA-256"))
}

/// Parses a manifest or an index.
pub(super) fn parse(text: &[u8]) -> Result<Manifest, SourceError> {
    serde_json::from_slice(text).map_err(|error| {
        Refusal::new(RefusalRule::Corrupt, format!("the manifest is not valid: {error}")).into()
    })
}

/// Returns the digest of the manifest to use of an index. `None` if it is a manifest itself.
///
/// A skill is the same on every platform, so the first one is used; entries without a known platform
/// are attestations.
pub(super) fn choose(index: &Manifest) -> Result<Option<String>, SourceError> {
    let is_usable = |entry: &&Descriptor| {
        MANIFESTS.contains(&entry.media_type.as_str())
            && entry.platform.as_ref().is_none_or(|platform| {
                platform.os != "unknown" && platform.architecture != "unknown"
            })
    };
    match index.manifests.iter().find(is_usable) {
        Some(entry) => Ok(Some(format!("sha256:{}", entry.digest))),
        None if index.manifests.is_empty() => Ok(None),
        None => {
            let why = "the index has no manifest that can be used";
            Err(Refusal::new(RefusalRule::Unsupported, why).into())
        }
    }
}

/// A skill in the form in which it is published. The same skill has the same texts everywhere.
#[derive(Debug, Clone)]
pub struct Published {
    /// The text of the configuration.
    pub(super) config: String,
    /// The text of the manifest.
    pub(super) manifest: String,
    /// The digest of the manifest.
    pub digest: Digest,
}

impl Published {
    /// Describes a skill.
    pub fn new(publication: &Publication<'_>) -> Published {
        let Publication { name, description, version, archive } = publication;
        let mut config = json!({ "name": name, "description": description });
        let mut annotations = json!({ TITLE: name, DESCRIPTION: description });
        if let Some(version) = version {
            config["version"] = json!(version);
            annotations[VERSION] = json!(version);
        }
        let config = config.to_string();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFESTS[0],
            "artifactType": SKILL,
            "config": {
                "mediaType": SKILL,
                "digest": format!("sha256:{}", Digest::of(config.as_bytes())),
                "size": config.len(),
            },
            "layers": [{
                "mediaType": CONTENT,
                "digest": format!("sha256:{}", Digest::of(archive)),
                "size": archive.len(),
                "annotations": { TITLE: format!("{name}.tar.gz") },
            }],
            "annotations": annotations,
        });
        let manifest = manifest.to_string();
        Published { config, digest: Digest::of(manifest.as_bytes()), manifest }
    }
}
