//! The keys of a policy file that are about agents: where skills lie, what has to be approved, what is kept aside.

use std::path::PathBuf;

use super::{Reader, scalar};
use crate::policy::approval::Level;
use crate::policy::yaml::Node;
use crate::policy::{mounts, printable};

impl Reader<'_> {
    pub(super) fn skill_folders(&mut self, node: &Node) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for (text, span) in self.texts(node, "skill-folders", "a folder's name") {
            match mounts::host_path(text, self.folder(), self.home) {
                Ok(path) => folders.push(path),
                Err(why) => self.error("policy-skill-folder", Some(span), printable(&why), None),
            }
        }
        folders
    }

    pub(super) fn level(&mut self, node: &Node) -> Option<Level> {
        let level = scalar(node).and_then(Level::from_name);
        if level.is_none() {
            let wanted = Level::ALL.map(Level::name).join(", ");
            self.error("policy-approval", Some(node.span), format!("`approval` is one of {wanted}"), None);
        }
        level
    }

    pub(super) fn stage(&mut self, node: &Node) -> bool {
        if !matches!(scalar(node), Some("true" | "false")) {
            self.error("policy-stage", Some(node.span), "`stage` is `true` or `false`".into(), None);
        }
        scalar(node) == Some("true")
    }
}
