//! The container tiers: runc, crun or gVisor's runsc runs an OCI bundle for each case.
//!
//! The runtime creates a cgroup for each container below that of this process, and removes it.
//! Nothing is mounted in the machine's namespaces, and the machine's own cgroups do not change.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use skillhost_toolchain::{Error, files};

use super::root::Root;
use super::tiers;
use crate::cases::Case;
use crate::place::Place;

/// The number of the next container, which makes its name unique.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(crate) fn command(
    runtime: &Path,
    root: &Root,
    place: &Place,
    case: &Case,
) -> Result<Command, Error> {
    let bundle = place.folder.join("bundles").join(case.key());
    let uid = std::fs::metadata("/proc/self").map_err(Error::context("/proc/self"))?.uid();
    let config = config(root, place, case, uid).to_string();
    files::write_if_changed(&bundle.join("config.json"), config.as_bytes())?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("skillhost-bench-{}-{number}", std::process::id());
    let state = place.folder.join(runtime.file_name().unwrap_or_default());
    let mut command = place.command(runtime);
    command.arg("--root").arg(state);
    if runtime.ends_with("runsc") {
        // `ptrace` works on every machine. Debian's version has no `systrap`, and `kvm` needs a
        // processor that virtualizes. Without a network, no interface has to be copied.
        command.args(["--platform=ptrace", "--network=none", "--ignore-cgroups"]);
        command.args((uid != 0).then_some("--rootless"));
    }
    command.args(["run", "--bundle"]).arg(bundle).arg(name);
    Ok(command)
}

/// Returns the configuration of a bundle: all namespaces, no capabilities, a read-only root file
/// system and, unless this process runs as root, a user namespace. A seccomp profile is left out,
/// because it would cost more time.
fn config(root: &Root, place: &Place, case: &Case, uid: u32) -> Value {
    let mut namespaces = ["pid", "network", "ipc", "uts", "mount", "cgroup"]
        .map(|kind| json!({ "type": kind }))
        .to_vec();
    let mut linux = json!({});
    if uid != 0 {
        namespaces.push(json!({ "type": "user" }));
        let mapping = json!([{ "containerID": 0, "hostID": uid, "size": 1 }]);
        linux = json!({ "uidMappings": mapping, "gidMappings": mapping });
    }
    linux["namespaces"] = namespaces.into();
    let bind = |to: &str, from: PathBuf, mode: &str| json!({ "destination": to, "type": "bind", "source": from, "options": ["bind", mode] });
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": tiers::inside(case, place),
            "env": ["PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"],
            "cwd": "/workspace",
            "capabilities": {},
            "noNewPrivileges": true,
        },
        "root": { "path": root.folder, "readonly": true },
        "hostname": "bench",
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"] },
            { "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"] },
            bind("/skill", place.skill(case.skill), "ro"),
            bind("/workspace", place.workspace(), "rw"),
        ],
        "linux": linux,
    })
}
