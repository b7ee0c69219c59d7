//! Recognizes misspelt keys for permissions and limits. Ignoring such a key would drop a restriction
//! that the author intended.

use super::schema;
use crate::limits::Limit;

/// The fields that authors also put below `metadata` by mistake.
const TOOL_FIELDS: [&str; 2] = ["allowed-tools", "disallowed-tools"];

/// Returns the field that an unknown top-level key probably means.
pub(super) fn misspelt_field(key: &str) -> Option<&'static str> {
    schema::keys(true).find(|field| is_near(field, key))
}

/// Returns the key that an unknown key of `metadata` probably means: a limit, or a field that belongs
/// to the top level.
pub(super) fn misspelt_metadata(key: &str) -> Option<&'static str> {
    let limits = Limit::ALL.iter().filter(|limit| limit.in_manifest()).map(|limit| limit.key());
    TOOL_FIELDS.into_iter().chain(limits).find(|known| is_near(known, key))
}

/// Checks whether two texts are nearly equal, ignoring case and everything but letters and digits.
/// Allows two edits, or one in a name of at most six letters: `url` and `memo` are keys of their
/// own, although they are two edits from `fuel` and `memory`.
fn is_near(known: &str, key: &str) -> bool {
    let letters = |text: &str| {
        text.chars()
            .map(narrow)
            .filter(|c| c.is_alphanumeric())
            .flat_map(char::to_lowercase)
            .collect::<String>()
    };
    let (known, key) = (letters(known), letters(key));
    let edits = if known.len() <= 6 { 1 } else { 2 };
    if looks_like(&known, &key) {
        return true;
    }
    // The distance takes time proportional to both lengths, and the skill chooses one of them.
    key.chars().count().abs_diff(known.len()) <= edits
        && strsim::damerau_levenshtein(&known, &key) <= edits
}

/// Checks whether the texts differ only in letters of other scripts, which may look the same. At
/// least half of the letters must be equal.
fn looks_like(known: &str, key: &str) -> bool {
    let foreign = key.chars().filter(|c| !c.is_ascii()).count();
    let length = key.chars().count();
    length == known.len()
        && foreign <= length / 2
        && key.chars().zip(known.chars()).all(|(c, known)| c == known || !c.is_ascii())
}

/// Converts a full-width character (U+FF01 to U+FF5E) to ASCII.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_permission_keys_are_recognised() {
        let allowed = [
            "alowed-tools",
            "allowed_tools",
            "allowedTools",
            "Allowed-Tools",
            "ALLOWED TOOLS",
            "allowed-tool",
            "allow-tools",
            "allowed-tolls",
            "allwoed-tools",
            "allowed\u{200b}-tools",
            "\u{430}llowed-tools",
            "\u{430}ll\u{43e}w\u{435}d-t\u{43e}\u{43e}ls",
            "\u{ff41}\u{ff4c}\u{ff4c}\u{ff4f}\u{ff57}\u{ff45}\u{ff44}-tools",
        ];
        allowed
            .into_iter()
            .for_each(|key| assert_eq!(misspelt_field(key), Some("allowed-tools"), "{key}"));
        for key in [
            "disallowedTools",
            "disallowed_tools",
            "disalowed-tools",
            "dissallowed-tools",
            "disallow-tools",
        ] {
            assert_eq!(misspelt_field(key), Some("disallowed-tools"), "{key}");
            assert_eq!(misspelt_metadata(key), Some("disallowed-tools"), "{key}");
        }
        assert_eq!(misspelt_field("metdata"), Some("metadata"));
        assert_eq!(misspelt_metadata("allowed-tools"), Some("allowed-tools"));
        for (key, meant) in [
            ("Timeout", "timeout"),
            ("timout", "timeout"),
            ("time-out", "timeout"),
            ("memroy", "memory"),
            ("feul", "fuel"),
        ] {
            assert_eq!(misspelt_metadata(key), Some(meant), "{key}");
        }
    }

    #[test]
    fn keys_in_common_use_are_not_misspellings() {
        let used = [
            "name",
            "description",
            "license",
            "compatibility",
            "tools",
            "argument-hint",
            "user-invocable",
            "disable-model-invocation",
            "hooks",
            "author",
            "authors",
            "version",
            "tags",
            "dependencies",
            "source",
            "risk",
            "model",
            "models",
            "agent",
            "context",
            "color",
            "category",
            "keywords",
            "homepage",
            "repository",
            "url",
            "emoji",
            "requires",
            "required-tools",
            "optional-tools",
            "denied-tools",
            "blocked-tools",
            "allowed-domains",
            "allowed-models",
            "allowed-hosts",
            "mcp-servers",
            "mcpServers",
            "permissions",
            "permissionMode",
            "when_to_use",
            "triggers",
            "title",
            "status",
            "type",
            "date",
            "updated",
            "created",
            "language",
            "languages",
            "platforms",
            "os",
            "primaryEnv",
            "f\u{fc}ll",
            "m\u{e9}tadonn\u{e9}es",
            "install",
            "bins",
            "skills",
            "memo",
            "meta",
            "metrics",
            "always",
            "icon",
            "rules",
            "role",
            "file",
            "files",
            "tool",
            "level",
            "timeline",
            "paths",
            "globs",
            "effort",
            "shell",
            "input",
            "output",
            "inputs",
            "outputs",
            "env",
            "args",
            "arguments",
            "command",
        ];
        for key in used {
            assert_eq!(misspelt_field(key), None, "{key}");
            assert_eq!(misspelt_metadata(key), None, "{key} in metadata");
        }
    }

    #[test]
    fn huge_keys_match_nothing() {
        let key = "allowed-tools".repeat(5_000);
        assert_eq!((misspelt_field(&key), misspelt_metadata(&key)), (None, None));
    }
}
