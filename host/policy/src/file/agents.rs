//! Reads the keys of a policy file that concern agents: `approval`, `stage`, `symlinks`,
//! `disclosure`, `tools`, `usage`, `clients` and `preload`.

use std::collections::BTreeMap;

use super::{Expected, Reader, scalar};
use crate::disclosure::{Disclosure, is_tool_name};
use crate::level::PermissionLevel;
use crate::schema;
use crate::yaml::{Kind, Node};
use crate::{Approver, Clients, NameGlob, Preload, printable};

impl Reader<'_> {
    pub(super) fn level(&mut self, node: &Node) -> Option<PermissionLevel> {
        let level = scalar(node).and_then(PermissionLevel::from_name);
        if level.is_none() {
            let wanted = PermissionLevel::ALL.map(PermissionLevel::name).join(", ");
            self.error(
                "policy-approval",
                Some(node.span),
                format!("`approval` must be one of: {wanted}"),
                None,
            );
        }
        level
    }

    pub(super) fn stage(&mut self, node: &Node) -> bool {
        if !matches!(scalar(node), Some("true" | "false")) {
            self.error(
                "policy-stage",
                Some(node.span),
                "`stage` must be `true` or `false`".into(),
                None,
            );
        }
        scalar(node) == Some("true")
    }

    pub(super) fn symlinks(&mut self, node: &Node) -> Option<bool> {
        let allowed = match scalar(node) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        if allowed.is_none() {
            let message = "`symlinks` must be `true` or `false`".to_owned();
            self.error("policy-symlinks", Some(node.span), message, None);
        }
        allowed
    }

    /// Reads how much agents see of a skill or tool. `key` is the key of the value.
    pub(super) fn disclosure(&mut self, node: &Node, key: &str) -> Option<Disclosure> {
        let disclosure = scalar(node).and_then(Disclosure::from_name);
        if disclosure.is_none() {
            let wanted = Disclosure::ALL.map(Disclosure::name).join(", ");
            self.error(
                "policy-disclosure",
                Some(node.span),
                format!("`{}` must be one of: {wanted}", printable(key)),
                None,
            );
        }
        disclosure
    }

    pub(super) fn tools(&mut self, node: &Node) -> BTreeMap<String, Disclosure> {
        let mut tools = BTreeMap::new();
        let Kind::Map(entries) = &node.kind else {
            return self.expected(node, "`tools`", Expected::Table, tools);
        };
        for (key, value) in entries {
            let name = scalar(key).unwrap_or_default();
            if !is_tool_name(name) {
                let message = format!("invalid name of a typed tool: `{}`", printable(name));
                self.error("policy-disclosure", Some(key.span), message, None);
            }
            if let Some(disclosure) = self.disclosure(value, name) {
                tools.insert(name.to_owned(), disclosure);
            }
        }
        tools
    }

    pub(super) fn usage(&mut self, node: &Node) -> bool {
        if !matches!(scalar(node), Some("true" | "false")) {
            self.error(
                "policy-usage",
                Some(node.span),
                "`usage` must be `true` or `false`".into(),
                None,
            );
        }
        scalar(node) == Some("true")
    }

    pub(super) fn clients(&mut self, node: &Node) -> Clients {
        let mut clients = Clients::default();
        for (key, _, value) in self.table(node, "`clients`", &schema::CLIENTS) {
            let mut approver = Approver::default();
            for (_, _, value) in self.table(value, &format!("`{key}`"), &schema::CLIENT) {
                match scalar(value) {
                    Some("client") => approver = Approver::Client,
                    Some("operator") => approver = Approver::Operator,
                    _ => {
                        let message = format!("`ask` must be one of: {}", schema::ASK.join(", "));
                        self.error("policy-clients", Some(value.span), message, None);
                    }
                }
            }
            *if key == "stdio" { &mut clients.stdio } else { &mut clients.http } = approver;
        }
        clients
    }

    pub(super) fn preload(&mut self, node: &Node) -> Preload {
        if matches!(node.kind, Kind::Scalar(_)) {
            if scalar(node) != Some("suggested") {
                let fix =
                    Some("preload: suggested, or a list of names: preload: [notes, tasks]".into());
                self.error(
                    "policy-preload",
                    Some(node.span),
                    "`preload` must be `suggested` or a list of skill names".into(),
                    fix,
                );
            }
            return Preload::Suggested;
        }
        let mut names = Vec::new();
        for (text, span) in self.texts(node, "preload", "the name of a skill", "[notes]") {
            if NameGlob::new(text).is_ok_and(|name| name.is_literal()) {
                names.push(text.to_owned());
            } else {
                self.error(
                    "policy-preload",
                    Some(span),
                    format!("invalid skill name `{}`", printable(text)),
                    None,
                );
            }
        }
        Preload::Named(names)
    }
}
