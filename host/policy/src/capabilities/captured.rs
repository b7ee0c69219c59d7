//! Capabilities as receipts and recordings have them: without anything that only one machine knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use super::{Authority, Capabilities, Mount, MountMode, Scope};
use crate::determinism::Determinism;
use crate::exact;
use crate::limits::Limits;
use crate::pattern::{CommandPattern, HostPattern, PathGlob};

/// [`Capabilities`] without host folders, files of certificates and values of variables.
///
/// In JSON, whole numbers above 2^53 - 1 are strings: see [`exact`](crate::exact).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedCapabilities {
    /// The folders that guests saw in addition to `/skill` and `/tmp`.
    pub mounts: Vec<CapturedMount>,
    /// Package folders for the built-in programs.
    pub packages: Vec<CapturedMount>,
    /// Which guest paths could be read.
    pub read: Scope<PathGlob>,
    /// Which guest paths could be written and read.
    pub write: Scope<PathGlob>,
    /// Which commands could be started.
    pub spawn: Scope<CommandPattern>,
    /// The programs of the embedding application that could be started.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub host_programs: BTreeSet<String>,
    /// Which hosts could receive HTTP(S) requests.
    pub fetch: Scope<HostPattern>,
    /// The HTTP methods that could be used, in upper case.
    pub methods: Vec<String>,
    /// Certificate authorities that HTTPS trusted in addition to the built-in ones.
    pub authorities: Vec<CapturedAuthority>,
    /// The names of the variables that guests saw, sorted.
    pub env: Vec<String>,
    /// The limits.
    #[serde(with = "exact")]
    #[schemars(with = "Limits")]
    pub limits: Limits,
    /// The seed and start time of a deterministic run; `None` if the run was not deterministic.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "exact")]
    #[schemars(with = "Option<Determinism>")]
    pub determinism: Option<Determinism>,
}

/// A [`Mount`] without its host folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedMount {
    /// Absolute guest path without a trailing slash, such as `/workspace`.
    pub guest: String,
    /// What the mount permitted, within the scopes.
    pub mode: MountMode,
    /// See [`Mount::rules_at`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rules_at: String,
    /// Whether guests could create symlinks in the host folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub symlinks: bool,
    /// Whether the targets of symlinks in the host folder were paths of the guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guest_links: bool,
}

/// An [`Authority`] without its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapturedAuthority {
    /// The certificate's digest: `sha256:` and 64 hex digits.
    pub digest: String,
}

impl CapturedCapabilities {
    /// Captures the capabilities of a run.
    pub fn of(capabilities: &Capabilities) -> CapturedCapabilities {
        // Without `..`: a new field does not compile until it is captured, or left out, here.
        let Capabilities {
            mounts,
            packages,
            read,
            write,
            spawn,
            host_programs,
            fetch,
            methods,
            authorities,
            env,
            limits,
            determinism,
        } = capabilities;
        let mounts_of = |mounts: &[Mount]| mounts.iter().map(CapturedMount::of).collect();
        CapturedCapabilities {
            mounts: mounts_of(mounts),
            packages: mounts_of(packages),
            read: read.clone(),
            write: write.clone(),
            spawn: spawn.clone(),
            host_programs: host_programs.clone(),
            fetch: fetch.clone(),
            methods: methods.clone(),
            authorities: authorities
                .iter()
                .map(|authority| CapturedAuthority { digest: authority.digest.clone() })
                .collect(),
            env: env.keys().cloned().collect(),
            limits: limits.clone(),
            determinism: *determinism,
        }
    }

    /// Completes the capabilities with the folder of each mount, by guest path, and with the
    /// variables. The authorities trust nothing: their certificates are not captured.
    ///
    /// # Errors
    /// A mount has no folder, the variables are not those that were captured, or the run could start
    /// host programs.
    pub fn restore(
        self,
        folders: &BTreeMap<String, PathBuf>,
        env: &BTreeMap<String, String>,
    ) -> Result<Capabilities, RestoreError> {
        if !self.env.iter().eq(env.keys()) {
            return Err(RestoreError::Variables);
        }
        // No recording has any: only runs that are not deterministic may start them.
        if !self.host_programs.is_empty() {
            return Err(RestoreError::HostPrograms);
        }
        let mounts_of = |mounts: Vec<CapturedMount>| {
            mounts.into_iter().map(|mount| mount.restore(folders)).collect::<Result<Vec<_>, _>>()
        };
        let authority = |authority: CapturedAuthority| Authority {
            file: PathBuf::new(),
            digest: authority.digest,
            certificate: CertificateDer::from(Vec::new()),
        };
        Ok(Capabilities {
            mounts: mounts_of(self.mounts)?,
            packages: mounts_of(self.packages)?,
            read: self.read,
            write: self.write,
            spawn: self.spawn,
            host_programs: BTreeSet::new(),
            fetch: self.fetch,
            methods: self.methods,
            authorities: self.authorities.into_iter().map(authority).collect(),
            env: env.clone(),
            limits: self.limits,
            determinism: self.determinism,
        })
    }
}

impl CapturedMount {
    fn of(mount: &Mount) -> CapturedMount {
        let Mount { guest, host: _, resolved: _, mode, rules_at, symlinks, guest_links } = mount;
        CapturedMount {
            guest: guest.clone(),
            mode: *mode,
            rules_at: rules_at.clone(),
            symlinks: *symlinks,
            guest_links: *guest_links,
        }
    }

    fn restore(self, folders: &BTreeMap<String, PathBuf>) -> Result<Mount, RestoreError> {
        let CapturedMount { guest, mode, rules_at, symlinks, guest_links } = self;
        match folders.get(&guest) {
            Some(folder) => {
                let mount = Mount::new(guest, folder.clone(), mode);
                Ok(Mount { rules_at, symlinks, guest_links, ..mount })
            }
            None => Err(RestoreError::Folder(guest)),
        }
    }
}

/// Why captured capabilities cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// No folder is known for this guest path.
    #[error("there is no folder for {0}")]
    Folder(String),
    /// The variables are not those that were captured.
    #[error("the variables do not match the capabilities")]
    Variables,
    /// The run could start programs of the embedding application, which cannot be replayed.
    #[error("the run could start programs of the embedding application")]
    HostPrograms,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities() -> Capabilities {
        let mut capabilities = Capabilities {
            mounts: vec![Mount::new("/workspace", "/home/user/project", MountMode::Write)],
            authorities: vec![Authority {
                file: "/etc/ca.pem".into(),
                digest: "sha256:00".into(),
                certificate: CertificateDer::from(Vec::new()),
            }],
            env: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
            determinism: Some(Determinism { seed: u64::MAX, ..Determinism::default() }),
            ..Capabilities::default()
        };
        capabilities.limits.memory = 1 << 60;
        capabilities
    }

    #[test]
    fn captured_capabilities_name_nothing_of_the_machine() {
        let text = serde_json::to_string(&CapturedCapabilities::of(&capabilities())).unwrap();
        for hidden in ["/home", "ca.pem", "secret"] {
            assert!(!text.contains(hidden), "{text}");
        }
        assert!(text.contains("\"env\":[\"TOKEN\"]"), "{text}");
    }

    #[test]
    fn large_numbers_are_strings_and_are_read_exactly() {
        let captured = CapturedCapabilities::of(&capabilities());
        let value = serde_json::to_value(&captured).unwrap();
        assert_eq!(value["determinism"]["seed"], u64::MAX.to_string());
        assert_eq!(value["limits"]["memory"], (1_u64 << 60).to_string());
        assert_eq!(serde_json::from_value::<CapturedCapabilities>(value).unwrap(), captured);
    }

    #[test]
    fn capabilities_are_restored_with_other_folders() {
        let captured = CapturedCapabilities::of(&capabilities());
        let folders = BTreeMap::from([("/workspace".to_owned(), PathBuf::from("/restored"))]);
        let mut expected = capabilities();
        expected.mounts[0].host = "/restored".into();
        expected.authorities[0].file = PathBuf::new();
        let restored = captured.clone().restore(&folders, &expected.env).unwrap();
        assert_eq!(restored, expected);

        let missing = captured.clone().restore(&BTreeMap::new(), &expected.env);
        assert_eq!(missing, Err(RestoreError::Folder("/workspace".into())));
        let other = captured.restore(&folders, &BTreeMap::new());
        assert_eq!(other, Err(RestoreError::Variables));
    }

    #[test]
    fn runs_with_host_programs_are_not_restored() {
        let host_programs = BTreeSet::from(["lookup".to_owned()]);
        let captured =
            CapturedCapabilities::of(&Capabilities { host_programs, ..Capabilities::default() });
        let restored = captured.restore(&BTreeMap::new(), &BTreeMap::new());
        assert_eq!(restored, Err(RestoreError::HostPrograms));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let mut value = serde_json::to_value(CapturedCapabilities::of(&capabilities())).unwrap();
        value["extra"] = true.into();
        assert!(serde_json::from_value::<CapturedCapabilities>(value).is_err());
    }
}
