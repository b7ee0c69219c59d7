//! The container image: an OCI image layout in a tar archive, from scratch.
//!
//! The image has the program, its files, a folder for temporary files and a home folder of a user
//! without privileges. Formats: OCI image specification 1.1, `image-layout.md`, `config.md`,
//! `manifest.md`.

use std::path::Path;

use serde_json::{Value, json};

use crate::archive::{Archive, gzip};
use crate::error::Error;
use crate::manifest::{Artifact, Kind, hex};
use crate::tree::Tree;
use crate::{Architecture, NAME, Release};

/// The user that the program runs as: the number that images without a user database commonly use
/// for it.
const USER: u64 = 65_532;

const HOME: &str = "home/skillhost";

pub(crate) fn write(
    tree: &Tree,
    release: &Release,
    architecture: &Architecture,
    out: &Path,
) -> Result<Artifact, Error> {
    let mut layer = Archive::new(Vec::new(), release.time);
    layer.add_tree(tree, "usr/")?;
    layer.add_folder("tmp", 0o1777, 0)?;
    layer.add_folder(HOME, 0o700, USER)?;
    let layer = layer.finish()?;
    let packed = gzip(&layer)?;

    let mut blobs = Blobs::default();
    let config = json!({
        "architecture": architecture.image,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", format!("HOME=/{HOME}")],
            "Entrypoint": [format!("/usr/bin/{NAME}")],
            "Cmd": ["--help"],
            "WorkingDir": format!("/{HOME}"),
            "Labels": labels(release),
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))] },
    });
    let config = blobs.add_json("application/vnd.oci.image.config.v1+json", &config);
    let layer = blobs.add("application/vnd.oci.image.layer.v1.tar+gzip", packed);
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
        "annotations": labels(release),
    });
    let mut manifest = blobs.add_json("application/vnd.oci.image.manifest.v1+json", &manifest);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });

    let mut layout = Archive::new(Vec::new(), release.time);
    layout.add_bytes("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    layout.add_bytes("index.json", 0o644, index.to_string().as_bytes())?;
    for (digest, bytes) in &blobs.0 {
        layout.add_bytes(&format!("blobs/sha256/{digest}"), 0o644, bytes)?;
    }
    let machine = architecture.machine;
    let name = format!("{NAME}-{}-linux-{machine}.oci.tar", release.version);
    Artifact::write(Kind::Image, machine, &name, &layout.finish()?, out)
}

fn labels(release: &Release) -> Value {
    json!({
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    })
}

/// The blobs of a layout, by digest.
#[derive(Default)]
struct Blobs(std::collections::BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob, and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = hex(&bytes);
        let descriptor = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        });
        self.0.insert(digest, bytes);
        descriptor
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}
