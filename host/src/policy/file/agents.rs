//! The keys of a policy file that are about agents: what has to be approved, what is kept aside.

use super::{Reader, scalar};
use crate::policy::approval::Level;
use crate::policy::yaml::Node;

impl Reader<'_> {
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
