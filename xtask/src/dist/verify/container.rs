//! The image, run by runc as Kubernetes runs a pod of the *restricted* security standard: without
//! privileges and capabilities, and with a read-only root file system.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use skillhost_toolchain::{Error, Progress};

use super::{Dist, Installed, output, read_json, write};
use crate::machine::Architecture;

/// Makes the names of the containers unique.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Unpacks the layer of an image ($1) for a bundle ($2), with the owners that it names.
const UNPACK: &str = r#"
set -eu
mkdir -p "$2/layout" "$2/rootfs"
tar -xf "$1" -C "$2/layout"
"#;

pub(super) fn image(dist: &Dist<'_>, _: &Progress) -> Result<Installed, Error> {
    let image = dist.artifact("image", Architecture::OWN)?;
    let bundle = dist.folder.join("image/bundle");
    let start = Instant::now();
    output(Command::new("sh").args(["-c", UNPACK, "sh"]).args([&image, &bundle]))?;
    let layout = bundle.join("layout");
    let manifest = blob(&layout, &read_json(&layout.join("index.json"))?["manifests"][0])?;
    let settings = blob(&layout, &manifest["config"])?;
    let mut unpack = Command::new("tar");
    unpack.args(["--numeric-owner", "-xzf"]).arg(path(&layout, &manifest["layers"][0])?);
    output(unpack.arg("-C").arg(bundle.join("rootfs")))?;
    let time = start.elapsed();

    let work = dist.work("image", Some(user(&settings["config"])))?;
    let home = volume(&dist.folder.join("image/home"), &settings["config"])?;
    let state = dist.folder.join("image/state");
    let command = move |args: &[&str]| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let own = bundle.join(number.to_string());
        let config = config(&settings["config"], &bundle.join("rootfs"), &home, &work, args);
        // If it cannot be written, runc says that it is missing.
        drop(write(&own.join("config.json"), config.to_string().as_bytes()));
        let mut run = Command::new("runc");
        run.arg("--root").arg(&state).args(["run", "--bundle"]).arg(own);
        run.arg(format!("skillhost-dist-{}-{number}", std::process::id()));
        run
    };
    Ok(Installed { command: Box::new(command), time })
}

/// The configuration of a bundle. The network is the machine's, so that the server can be reached.
fn config(image: &Value, root: &Path, home: &Path, work: &Path, args: &[&str]) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let program = list(&image["Entrypoint"]).into_iter().chain(args.iter().map(|arg| json!(arg)));
    let user = user(image);
    let temporary = |to: &str, mode: &str| {
        let owner = [format!("uid={user}"), format!("gid={user}"), format!("mode={mode}")];
        let options = ["nosuid".to_owned(), "nodev".to_owned()].into_iter().chain(owner);
        json!({ "destination": to, "type": "tmpfs", "source": "tmpfs", "options": options.collect::<Vec<_>>() })
    };
    let kinds = ["pid", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": user, "gid": user },
            "args": program.collect::<Vec<_>>(),
            "env": image["Env"],
            "cwd": "/work/files",
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "root": { "path": root, "readonly": true },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"] },
            temporary("/tmp", "1777"),
            { "destination": "/home/skillhost", "type": "bind", "source": home, "options": ["bind", "rw"] },
            { "destination": "/work", "type": "bind", "source": work, "options": ["bind", "rw"] },
        ],
        "linux": { "namespaces": kinds },
    })
}

/// Creates a folder as Kubernetes creates a volume for `fsGroup`: it belongs to root, and the
/// image's group can write it.
fn volume(path: &Path, image: &Value) -> Result<PathBuf, Error> {
    fs::create_dir_all(path)
        .and_then(|()| chown(path, Some(0), Some(user(image))))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o2775)))
        .map_err(Error::context(path.display()))?;
    Ok(path.to_owned())
}

/// The number of the image's user, which is also that of its group.
fn user(image: &Value) -> u32 {
    let user = image["User"].as_str().and_then(|user| user.split(':').next()?.parse().ok());
    user.unwrap_or_default()
}

fn blob(layout: &Path, descriptor: &Value) -> Result<Value, Error> {
    read_json(&path(layout, descriptor)?)
}

fn path(layout: &Path, descriptor: &Value) -> Result<PathBuf, Error> {
    let digest = descriptor["digest"].as_str().unwrap_or_default().replace(':', "/");
    let path = layout.join("blobs").join(digest);
    match fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) => Err(Error::context(path.display())(error)),
    }
}
