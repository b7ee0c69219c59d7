//! The features of the kernel that the host uses. Each is tried with a harmless call: a version
//! number does not say what a container or a configuration forbids.

use std::fs::File;
use std::io::Read as _;

use crate::engine::{LandlockSupport, has_landlock, has_pagemap_scan, has_seccomp};
use crate::files::has_openat2;

/// A feature of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFeature {
    /// The name that the kernel's documentation uses.
    pub name: &'static str,
    /// Whether it works here.
    pub is_available: bool,
    /// More about how it works here.
    pub detail: Option<String>,
    /// What the host does without it.
    pub without: &'static str,
    /// Whether the host cannot work without it.
    pub is_required: bool,
}

/// Tries each feature. Changes nothing: what restricts a process is tried on a thread that ends.
pub fn features() -> Vec<KernelFeature> {
    let landlock = has_landlock();
    let cgroup = cgroup();
    vec![
        KernelFeature {
            name: "openat2",
            is_available: has_openat2(),
            detail: None,
            without: "each path is opened folder by folder, which is as strict but slower",
            is_required: false,
        },
        KernelFeature {
            name: "PAGEMAP_SCAN",
            is_available: has_pagemap_scan(),
            detail: None,
            without: "the memory of a runtime is mapped again after each run, which costs more page faults",
            is_required: false,
        },
        KernelFeature {
            name: "Landlock",
            is_available: landlock != LandlockSupport::Missing,
            detail: (landlock == LandlockSupport::Partial)
                .then(|| "in part: this kernel cannot restrict everything".to_owned()),
            without: "the compiler is confined by seccomp and limits only",
            is_required: false,
        },
        KernelFeature {
            name: "seccomp",
            is_available: has_seccomp(),
            detail: None,
            without: "no component can be compiled, because the compiler cannot be confined",
            is_required: true,
        },
        KernelFeature {
            name: "cgroup",
            is_available: cgroup.is_some(),
            detail: cgroup,
            without: "a share of the processors that a container sets does not limit the number of threads",
            is_required: false,
        },
    ]
}

/// Describes the control group of this process, with its limits, or `None` outside of any.
fn cgroup() -> Option<String> {
    let groups = read("/proc/self/cgroup")?;
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return groups.contains(":cpu").then(|| "version 1".to_owned());
    };
    // The root has no files for limits.
    let limit = |name: &str| {
        let text = read(&format!("/sys/fs/cgroup{}/{name}", path.trim_end_matches('/')))?;
        Some(text.trim().to_owned()).filter(|text| !text.starts_with("max"))
    };
    read("/sys/fs/cgroup/cgroup.controllers")?;
    let mut detail = "version 2".to_owned();
    for (name, file) in [("processors", "cpu.max"), ("memory", "memory.max")] {
        if let Some(limit) = limit(file) {
            detail += &format!(", {name} limited ({file}: {limit})");
        }
    }
    Some(detail)
}

/// Reads a small file of the kernel.
fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
    File::open(path).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test starts a program")]
mod tests {
    use super::*;

    #[test]
    fn probes_leave_this_process_unrestricted() {
        let before = rustix::fs::open(
            "/proc/self/status",
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        );
        assert!(before.is_ok());
        let found = features();
        let status = read("/proc/thread-self/status").unwrap();
        assert!(status.contains("NoNewPrivs:\t0") && status.contains("Seccomp:\t0"), "{status}");
        assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        assert_eq!(features(), found, "a second try finds the same");
    }

    #[test]
    fn features_agree_with_what_the_host_does() {
        let found = features();
        let has = |name: &str| found.iter().find(|one| one.name == name).unwrap().is_available;
        // The tests of the compiler need it.
        assert!(has("seccomp"));
        let direct = rustix::fs::openat2(
            rustix::fs::CWD,
            ".",
            rustix::fs::OFlags::PATH,
            rustix::fs::Mode::empty(),
            rustix::fs::ResolveFlags::empty(),
        );
        assert_eq!(has("openat2"), direct.is_ok());
    }
}
