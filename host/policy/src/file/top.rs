//! Reads the keys that only the top level of a policy file has. They apply to every skill, and no
//! section can change them.

use std::path::PathBuf;

use super::super::capabilities::Authority;
use super::super::{AuditDetail, Retention, Secrets, authorities, mounts, printable, schema};
use super::{Expected, Reader, scalar};
use crate::limits::{Limit, SKILL_SIZE, parse_skill_size};
use crate::yaml::Node;

impl Reader<'_> {
    pub(super) fn audit(&mut self, node: &Node) -> (Retention, AuditDetail) {
        let (mut retention, mut detail) = (Retention::default(), AuditDetail::default());
        for (key, _, value) in self.table(node, "`audit`", &schema::AUDIT) {
            let Some(text) = scalar(value) else {
                self.expected(value, &format!("`{key}`"), Expected::Value, ());
                continue;
            };
            let problem = match key {
                "keep" => match humantime::parse_duration(text) {
                    Ok(age) if !age.is_zero() => {
                        retention.age = Some(age);
                        None
                    }
                    _ => Some(format!("`{}` is not a time such as 90d or 12h", printable(text))),
                },
                "detail" => match text {
                    "digests" => None,
                    "text" => {
                        detail = AuditDetail::Text;
                        None
                    }
                    other => Some(format!("`{}` is not one of: digests, text", printable(other))),
                },
                _ => Limit::Disk.parse(text).map(|bytes| retention.bytes = Some(bytes)).err(),
            };
            if let Some(why) = problem {
                self.error(
                    "policy-audit",
                    Some(value.span),
                    format!("`{key}`: {}", printable(&why)),
                    None,
                );
            }
        }
        (retention, detail)
    }

    pub(super) fn skill_size(&mut self, node: &Node) -> u64 {
        let Some(text) = scalar(node) else {
            return self.expected(node, "`skill-size`", Expected::Value, SKILL_SIZE);
        };
        parse_skill_size(text).unwrap_or_else(|why| {
            let message = format!("`skill-size`: {}", printable(&why));
            self.error("policy-skill-size", Some(node.span), message, None);
            SKILL_SIZE
        })
    }

    pub(super) fn authorities(&mut self, node: &Node) -> Vec<Authority> {
        let mut authorities = Vec::new();
        for (text, span) in self.texts(node, "authorities", "the path of a PEM file", "[ca.pem]") {
            let path = mounts::host_path(text, self.folder(), self.home);
            match path.and_then(|path| authorities::read(&path)) {
                Ok(found) => authorities.extend(found),
                Err(why) => {
                    let fix = "name a file with `-----BEGIN CERTIFICATE-----`; relative paths start at this file's folder".to_owned();
                    self.error("policy-authority", Some(span), printable(&why), Some(fix));
                }
            }
        }
        authorities
    }

    pub(super) fn secrets(&mut self, node: &Node) -> Secrets {
        let mut secrets = Secrets::default();
        for (key, _, value) in self.table(node, "`secrets`", &schema::SECRETS) {
            let (names, what) = if key == "env" {
                (&mut secrets.env, "a variable")
            } else {
                (&mut secrets.headers, "a header field")
            };
            for (text, span) in self.texts(value, key, "a name", "[NAME]") {
                let valid = |b: u8| {
                    b.is_ascii_alphanumeric() || b == b'_' || (key == "headers" && b == b'-')
                };
                if text.is_empty() || !text.bytes().all(valid) {
                    self.error(
                        "policy-secret",
                        Some(span),
                        format!("`{}` is not the name of {what}", printable(text)),
                        None,
                    );
                } else if key == "env" {
                    names.push(text.to_owned());
                } else {
                    names.push(text.to_ascii_lowercase());
                }
            }
        }
        secrets
    }

    /// Reads `record`: the names whose values recordings store as plain text.
    pub(super) fn plain(&mut self, node: &Node) -> Vec<String> {
        let mut plain = Vec::new();
        for (key, _, value) in self.table(node, "`record`", &schema::RECORD) {
            for (text, span) in self.texts(value, key, "a name", "[NAME]") {
                if text.is_empty()
                    || !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
                {
                    let message = format!(
                        "`{}` is not the name of a variable or a header field",
                        printable(text)
                    );
                    self.error("policy-record", Some(span), message, None);
                } else {
                    plain.push(text.to_owned());
                }
            }
        }
        plain
    }

    pub(super) fn skill_folders(&mut self, node: &Node) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for (text, span) in self.texts(node, "skill-folders", "the path of a folder", "[~/skills]")
        {
            match mounts::host_path(text, self.folder(), self.home) {
                Ok(path) => folders.push(path),
                Err(why) => self.error("policy-skill-folder", Some(span), printable(&why), None),
            }
        }
        folders
    }
}
