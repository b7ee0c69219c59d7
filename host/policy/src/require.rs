//! What a policy demands of a skill before it is loaded: signatures, sources and scans.
//!
//! The evidence is collected elsewhere, because this crate does no I/O. A requirement is met by
//! evidence only: what cannot be verified counts as missing.

use std::path::PathBuf;

use serde::Serialize;

use crate::diagnostic::printable;

/// What `require` of one section demands. All of it must be met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirement {
    /// One of these must have signed every file of the skill.
    pub signed_by: Option<Vec<Signer>>,
    /// The skill must have been fetched from one of these sources.
    pub source: Option<Vec<String>>,
    /// A scan of exactly these files must not have found anything worse.
    pub scan: Option<ScanRule>,
    /// Where it is written, such as `policy.yaml:7:3`.
    pub place: String,
}

/// Who signs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signer {
    /// A key: `sha256:` and the digest of its SPKI form in hex digits, or the fingerprint of an SSH
    /// key, `SHA256:` and base64.
    Key(String),
    /// An identity that an issuer vouches for.
    Identity {
        /// The OIDC issuer's URL; for a certificate of another authority, `sha256:` and the digest
        /// of the authority's certificate.
        issuer: String,
        /// The address or URI in the certificate.
        identity: String,
    },
}

/// The most that a scan may have found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRule {
    /// The worst level.
    pub max: ScanLevel,
    /// SARIF files that the policy names.
    pub reports: Vec<PathBuf>,
}

/// The levels of SARIF, from harmless to worst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanLevel {
    /// No finding.
    #[default]
    None,
    /// An opportunity for improvement.
    Note,
    /// A possible problem.
    Warning,
    /// A serious problem.
    Error,
}

impl ScanLevel {
    /// Every level, from harmless to worst.
    pub const ALL: [ScanLevel; 4] =
        [ScanLevel::None, ScanLevel::Note, ScanLevel::Warning, ScanLevel::Error];

    /// Returns the name that SARIF and policies use.
    pub fn name(self) -> &'static str {
        match self {
            ScanLevel::None => "none",
            ScanLevel::Note => "note",
            ScanLevel::Warning => "warning",
            ScanLevel::Error => "error",
        }
    }

    /// Returns the level of a name.
    pub fn parse(name: &str) -> Option<ScanLevel> {
        ScanLevel::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// What is known about a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Who signed exactly the files of the skill.
    pub signers: Vec<Signer>,
    /// Why other signatures do not count.
    pub refused: Vec<String>,
    /// The source that it was fetched from.
    pub source: Option<String>,
    /// The worst finding of each report that names the skill's digest.
    pub scans: Vec<(String, ScanLevel)>,
    /// Why other reports do not count.
    pub unusable: Vec<String>,
    /// The digest that a report must name.
    pub digest: String,
}

/// A demand that is not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// What is missing.
    pub why: String,
    /// How to provide it.
    pub fix: String,
}

impl Signer {
    /// Parses the id of a key.
    ///
    /// # Errors
    /// The text is not the id of a key.
    pub fn key(text: &str) -> Result<Signer, String> {
        let is_hex = |hex: &str| {
            hex.len() == 64 && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_base64 = |text: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
            text.len() == 43 && text.bytes().all(plain)
        };
        let is_key = text.strip_prefix("sha256:").is_some_and(is_hex)
            || text.strip_prefix("SHA256:").is_some_and(is_base64);
        match is_key {
            true => Ok(Signer::Key(text.to_owned())),
            false => Err(format!("`{}` is not the digest of a key", printable(text))),
        }
    }
}

impl std::fmt::Display for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Signer::Key(id) => f.write_str(id),
            Signer::Identity { issuer, identity } => write!(f, "{identity} ({issuer})"),
        }
    }
}

impl Requirement {
    /// Returns the first demand that the evidence does not meet.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, evidence: &Evidence) -> Result<(), Unmet> {
        let place = &self.place;
        if let Some(wanted) = &self.signed_by
            && !evidence.signers.iter().any(|signer| wanted.contains(signer))
        {
            let wanted = list(wanted);
            let found = match (evidence.signers.as_slice(), evidence.refused.as_slice()) {
                ([], []) => "it has no signature".to_owned(),
                ([], refused) => refused.join("; "),
                (signers, _) => format!("it is signed by {}", list(signers)),
            };
            return Err(Unmet {
                why: format!("{place} requires a signature by {wanted}, and {found}"),
                fix: "get the signed skill from its author; or add the signer, if you trust it, to `signed-by`".into(),
            });
        }
        if let Some(wanted) = &self.source
            && !evidence.source.as_ref().is_some_and(|source| wanted.contains(source))
        {
            let found = match &evidence.source {
                Some(source) => format!("it is from {source}"),
                None => "it was not fetched".to_owned(),
            };
            let wanted = wanted.join(" or ");
            return Err(Unmet {
                why: format!("{place} requires the source {wanted}, and {found}"),
                fix: format!(
                    "skillhost add {}",
                    self.source.iter().flatten().next().map_or("SOURCE", |s| s)
                ),
            });
        }
        if let Some(rule) = &self.scan {
            self.check_scan(rule, evidence)?;
        }
        Ok(())
    }

    fn check_scan(&self, rule: &ScanRule, evidence: &Evidence) -> Result<(), Unmet> {
        let place = &self.place;
        let worst = evidence.scans.iter().max_by_key(|(_, level)| *level);
        let Some((report, level)) = worst else {
            let found = match evidence.unusable.as_slice() {
                [] => "there is no report about it".to_owned(),
                unusable => unusable.join("; "),
            };
            return Err(Unmet {
                why: format!("{place} requires a scan, and {found}"),
                fix: format!(
                    "scan the skill, write `\"automationDetails\": {{\"id\": \"sha256:{}\"}}` into the run of the SARIF file, and name the file with --scan or in `reports`",
                    evidence.digest
                ),
            });
        };
        match *level <= rule.max {
            true => Ok(()),
            false => Err(Unmet {
                why: format!(
                    "{place} allows findings up to `{}`, and {report} has one of level `{}`",
                    rule.max.name(),
                    level.name()
                ),
                fix: "read the report; if the finding is harmless, suppress it in the scanner"
                    .into(),
            }),
        }
    }
}

fn list(signers: &[Signer]) -> String {
    let all: Vec<String> = signers.iter().map(|signer| printable(&signer.to_string())).collect();
    if all.is_empty() { "no one (the list is empty)".to_owned() } else { all.join(" or ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: &str) -> Signer {
        Signer::key(&format!("sha256:{}", digit.repeat(64))).unwrap()
    }

    fn identity(issuer: &str, identity: &str) -> Signer {
        Signer::Identity { issuer: issuer.into(), identity: identity.into() }
    }

    #[test]
    fn signer_is_matched_exactly() {
        let wanted = vec![key("a"), identity("https://issuer", "me@host")];
        let rule = Requirement { signed_by: Some(wanted), ..Requirement::default() };
        let check = |signers: &[Signer]| {
            rule.check(&Evidence { signers: signers.to_vec(), ..Evidence::default() }).is_ok()
        };
        assert!(check(&[key("a")]) && check(&[key("b"), key("a")]));
        assert!(check(&[identity("https://issuer", "me@host")]));
        for other in [
            key("b"),
            identity("https://issuer", "me@host.example"),
            identity("https://issuer/", "me@host"),
            identity("https://other", "me@host"),
        ] {
            assert!(!check(std::slice::from_ref(&other)), "{other}");
        }
        assert!(!check(&[]));
    }

    #[test]
    fn empty_list_of_signers_refuses_every_skill() {
        let rule = Requirement { signed_by: Some(Vec::new()), ..Requirement::default() };
        let evidence = Evidence { signers: vec![key("a")], ..Evidence::default() };
        assert!(rule.check(&evidence).is_err());
    }

    #[test]
    fn worst_scan_counts() {
        let rule = |max| Requirement {
            scan: Some(ScanRule { max, reports: Vec::new() }),
            ..Requirement::default()
        };
        let evidence = |levels: &[ScanLevel]| Evidence {
            scans: levels.iter().map(|level| ("report".to_owned(), *level)).collect(),
            ..Evidence::default()
        };
        let both = evidence(&[ScanLevel::Note, ScanLevel::Warning]);
        assert!(rule(ScanLevel::Warning).check(&both).is_ok());
        assert!(rule(ScanLevel::Note).check(&both).is_err());
        assert!(rule(ScanLevel::Error).check(&evidence(&[])).is_err());
    }

    #[test]
    fn every_demand_must_be_met() {
        let rule = Requirement {
            signed_by: Some(vec![key("a")]),
            source: Some(vec!["https://host/a".into()]),
            scan: Some(ScanRule { max: ScanLevel::Note, reports: Vec::new() }),
            place: "policy.yaml:3:5".into(),
        };
        let all = Evidence {
            signers: vec![key("a")],
            source: Some("https://host/a".into()),
            scans: vec![("report".into(), ScanLevel::None)],
            ..Evidence::default()
        };
        rule.check(&all).unwrap();
        for (evidence, why) in [
            (Evidence { signers: Vec::new(), ..all.clone() }, "requires a signature by sha256:aaa"),
            (Evidence { source: None, ..all.clone() }, "requires the source https://host/a"),
            (Evidence { scans: Vec::new(), ..all.clone() }, "requires a scan"),
        ] {
            let unmet = rule.check(&evidence).unwrap_err();
            assert!(unmet.why.starts_with("policy.yaml:3:5 "), "{unmet:?}");
            assert!(unmet.why.contains(why), "{unmet:?}");
        }
    }

    #[test]
    fn ids_of_keys_have_two_forms() {
        for id in [format!("sha256:{}", "0a".repeat(32)), format!("SHA256:{}", "a".repeat(43))] {
            assert_eq!(Signer::key(&id), Ok(Signer::Key(id.clone())));
        }
        for id in ["sha256:0A", "sha256:", "me@host", "SHA256:"] {
            assert!(Signer::key(id).is_err(), "{id}");
        }
    }
}
