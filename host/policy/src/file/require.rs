//! Reads `require`: what a policy demands of skills before they are loaded.

use super::{Expected, Reader, scalar};
use crate::mounts;
use crate::printable;
use crate::require::{Requirement, ScanLevel, ScanRule, Signer};
use crate::schema;
use crate::yaml::{Kind, Node};

/// An example of `signed-by`.
const SIGNERS: &str = "[{ issuer: https://accounts.example.com, identity: me@example.com }]";

impl Reader<'_> {
    pub(super) fn require(&mut self, node: &Node) -> Requirement {
        let mut found = Requirement { place: self.place(node.span), ..Requirement::default() };
        let before = self.diagnostics.len();
        for (key, _, value) in self.table(node, "`require`", &schema::REQUIRE_KEYS) {
            match key {
                "signed-by" => found.signed_by = Some(self.signers(value)),
                "source" => found.source = Some(self.sources(value)),
                _ => found.scan = self.scan(value),
            }
        }
        let is_empty = found.signed_by.is_none() && found.source.is_none() && found.scan.is_none();
        if is_empty && self.diagnostics.len() == before {
            let fix = Some("require: { signed-by: [sha256:DIGEST] }".to_owned());
            let message = "`require` demands nothing".to_owned();
            self.error("policy-require", Some(node.span), message, fix);
        }
        found
    }

    fn signers(&mut self, node: &Node) -> Vec<Signer> {
        let Kind::List(items) = &node.kind else {
            let shape = Expected::List { example: SIGNERS };
            return self.expected(node, "`signed-by`", shape, Vec::new());
        };
        let mut signers = Vec::new();
        for item in items {
            match scalar(item) {
                Some(text) => match Signer::key(text) {
                    Ok(signer) => signers.push(signer),
                    Err(why) => {
                        let fix = "sha256:DIGEST as `skillhost key show` prints it, SHA256:FINGERPRINT of an SSH key, or { issuer: URL, identity: TEXT }";
                        self.error("policy-require", Some(item.span), why, Some(fix.to_owned()));
                    }
                },
                None => signers.extend(self.identity(item)),
            }
        }
        if items.is_empty() {
            let message = "`signed-by` is empty, so no skill could be loaded".to_owned();
            let fix = Some(format!("signed-by: {SIGNERS}"));
            self.error("policy-require", Some(node.span), message, fix);
        }
        signers
    }

    fn identity(&mut self, node: &Node) -> Option<Signer> {
        let (mut issuer, mut identity) = (None, None);
        let before = self.diagnostics.len();
        for (key, _, value) in self.table(node, "a signer", &schema::SIGNER) {
            let Some(text) = scalar(value).filter(|text| !text.is_empty()) else {
                self.expected(value, &format!("`{key}`"), Expected::Value, ());
                continue;
            };
            // Patterns would let an identity that somebody else can register match.
            if text.contains('*') {
                let message = format!("`{key}` is compared exactly, and has no wildcards");
                self.error("policy-require", Some(value.span), message, None);
                continue;
            }
            let place = if key == "issuer" { &mut issuer } else { &mut identity };
            *place = Some(text.to_owned());
        }
        if (issuer.is_none() || identity.is_none()) && self.diagnostics.len() == before {
            let fix = Some(format!("signed-by: {SIGNERS}"));
            let message = "a signer needs `issuer` and `identity`".to_owned();
            self.error("policy-require", Some(node.span), message, fix);
        }
        Some(Signer::Identity { issuer: issuer?, identity: identity? })
    }

    fn sources(&mut self, node: &Node) -> Vec<String> {
        let Kind::List(items) = &node.kind else {
            let shape = Expected::List { example: "[OWNER/REPO]" };
            return self.expected(node, "`source`", shape, Vec::new());
        };
        if items.is_empty() {
            let message = "`source` is empty, so no skill could be loaded".to_owned();
            let fix = Some("source: [OWNER/REPO]".to_owned());
            self.error("policy-require", Some(node.span), message, fix);
        }
        items.iter().filter_map(|item| self.source(item)).collect()
    }

    fn scan(&mut self, node: &Node) -> Option<ScanRule> {
        let (mut max, mut reports) = (None, Vec::new());
        let before = self.diagnostics.len();
        for (key, _, value) in self.table(node, "`scan`", &schema::SCAN) {
            if key == "reports" {
                for (text, span) in
                    self.texts(value, key, "the path of a SARIF file", "[scans/pdf.sarif]")
                {
                    match mounts::host_path(text, self.folder(), self.home) {
                        Ok(path) => reports.push(path),
                        Err(why) => self.error("policy-require", Some(span), printable(&why), None),
                    }
                }
                continue;
            }
            let Some(text) = scalar(value) else {
                self.expected(value, &format!("`{key}`"), Expected::Value, ());
                continue;
            };
            max = ScanLevel::parse(text);
            if max.is_none() {
                let message = format!("`{}` is not a level of SARIF", printable(text));
                let fix = Some(ScanLevel::ALL.map(ScanLevel::name).join(", "));
                self.error("policy-require", Some(value.span), message, fix);
            }
        }
        if max.is_none() && self.diagnostics.len() == before {
            let message = "`scan` needs `max-severity`".to_owned();
            let fix = Some("scan: { max-severity: note }".to_owned());
            self.error("policy-require", Some(node.span), message, fix);
        }
        Some(ScanRule { max: max?, reports })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use crate::require::{Requirement, ScanLevel, Signer};

    fn read(text: &str) -> Result<Requirement, Vec<(usize, usize, String)>> {
        let text = format!("skills:\n  acme-*:\n    require:\n{text}");
        match crate::load(Path::new("/etc/policy.yaml"), &text, None) {
            Ok(policy) => Ok(policy.requirements_for("acme-x").next().cloned().unwrap()),
            Err(error) => Err(error
                .diagnostics
                .into_iter()
                .map(|found| {
                    let span = found.span.unwrap();
                    (span.line, span.column, found.message)
                })
                .collect()),
        }
    }

    #[test]
    fn all_demands_are_read() {
        let key = format!("sha256:{}", "ab".repeat(32));
        let found = read(&format!(
            "      signed-by: ['{key}', {{ issuer: https://i.example, identity: me@i.example }}]\n      source: [acme/skills, /srv/skills]\n      scan: {{ max-severity: note, reports: [a.sarif] }}\n"
        ))
        .unwrap();
        let identity = Signer::Identity {
            issuer: "https://i.example".into(),
            identity: "me@i.example".into(),
        };
        assert_eq!(found.signed_by, Some(vec![Signer::Key(key), identity]));
        let sources = ["https://github.com/acme/skills", "/srv/skills"].map(str::to_owned);
        assert_eq!(found.source, Some(sources.to_vec()));
        let scan = found.scan.unwrap();
        assert_eq!(
            (scan.max, scan.reports),
            (ScanLevel::Note, vec![PathBuf::from("/etc/a.sarif")])
        );
        assert_eq!(found.place, "/etc/policy.yaml:4:7");
    }

    #[test]
    fn every_problem_has_its_position() {
        let errors = read(
            "      signed-by: [me@host, { issuer: x }, { issuer: '*', identity: y }]\n      source: [./x]\n      scan: { max-severity: high }\n",
        )
        .unwrap_err();
        let found: Vec<_> = errors.iter().map(|(line, column, _)| (*line, *column)).collect();
        assert_eq!(found, [(4, 19), (4, 28), (4, 53), (5, 16), (6, 29)], "{errors:?}");
        for text in ["      {}\n", "      signed-by: []\n", "      scan: {}\n", "      scan: []\n"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
