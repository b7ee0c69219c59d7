//! Removes this machine's paths from everything that clients see.

use std::path::{Path, PathBuf};

use serde_json::Value;

use skillhost_policy::{Origin, Policy};

/// Paths of the host, and their replacements.
#[derive(Debug, Clone, Default)]
pub(super) struct HostPaths(Vec<(String, String)>);

impl HostPaths {
    /// Hides these paths, and those of a policy.
    pub(super) fn new(
        named: impl IntoIterator<Item = (PathBuf, String)>,
        policy: &Policy,
    ) -> HostPaths {
        let mut hidden = HostPaths::default();
        for (path, word) in named {
            hidden.add(&path, &word);
        }
        for layer in &policy.layers {
            if let Origin::File(path) = &layer.origin {
                hidden.add(path, "the policy");
            }
            for rule in &layer.mounts {
                hidden.add(&rule.mount.host, &rule.mount.guest);
            }
            for folder in &layer.packages {
                hidden.add(folder, "the packages");
            }
        }
        hidden
    }

    /// Returns a copy that hides one more path.
    pub(super) fn and(&self, path: &Path, word: &str) -> HostPaths {
        let mut hidden = self.clone();
        hidden.add(path, word);
        hidden
    }

    fn add(&mut self, path: &Path, word: &str) {
        let forms = [path.to_owned(), path.canonicalize().unwrap_or_default()];
        for form in
            forms.iter().filter_map(|form| form.to_str()).map(|form| form.trim_end_matches('/'))
        {
            // A relative path such as `.` says nothing about this machine, and would match
            // everywhere.
            if form.len() > 1
                && form.starts_with('/')
                && self.0.iter().all(|(known, _)| known != form)
            {
                self.0.push((form.to_owned(), word.to_owned()));
            }
        }
        // The longest first, because a path in a folder has its own replacement.
        self.0.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    }

    /// Replaces the paths in a text.
    pub(super) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (path, word)| text.replace(path, word))
    }

    /// Replaces the paths in every string of a value.
    pub(super) fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.value(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_hidden_path_is_replaced() {
        let named = [("/home/me", "~"), ("/home/me/.claude/skills/x", "/skill")]
            .map(|(path, word)| (path.into(), word.to_owned()));
        let hidden =
            HostPaths::new(named, &Policy::builtin()).and(Path::new("/home/me/work"), "/workspace");
        assert_eq!(
            hidden.text("/home/me/.claude/skills/x/SKILL.md, /home/me/work/a and /home/me"),
            "/skill/SKILL.md, /workspace/a and ~"
        );
        let mut value = serde_json::json!({ "a": ["/home/me/b", 1], "b": { "c": "x /home/me" } });
        hidden.value(&mut value);
        assert_eq!(value, serde_json::json!({ "a": ["~/b", 1], "b": { "c": "x ~" } }));
    }

    #[test]
    fn only_absolute_paths_are_hidden() {
        let hidden = HostPaths::new(
            [(PathBuf::from("/"), "x".to_owned()), (PathBuf::from("."), "y".to_owned())],
            &Policy::builtin(),
        );
        assert_eq!(hidden.text("a/b. c"), "a/b. c");
    }
}
