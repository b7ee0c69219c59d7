//! The paths of entries: which are accepted, and which of them a file system may treat as one.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use crate::error::{Refusal, RefusalRule};
use crate::limits;

/// Returns the path of an entry, relative and separated by `/`. Empty for the root itself.
///
/// # Errors
/// The path is absolute, contains `..`, or has a name that is not portable.
pub(crate) fn parse(raw: &[u8]) -> Result<String, Refusal> {
    let refuse = |rule, why: &str| Err(Refusal::at(rule, raw, why));
    let Ok(text) = str::from_utf8(raw) else {
        return refuse(RefusalRule::InvalidName, "the path is not valid UTF-8");
    };
    let has_drive = matches!(text.as_bytes(), [drive, b':', ..] if drive.is_ascii_alphabetic());
    if text.starts_with(['/', '\\']) || has_drive {
        return refuse(RefusalRule::AbsolutePath, "the path is absolute");
    }
    // Some tools write `\` on Windows, where it separates names.
    if text.split(['/', '\\']).any(|name| name == "..") {
        return refuse(RefusalRule::PathTraversal, "the path contains `..`");
    }
    if text.chars().any(|char| char.is_control() || char == '\\') {
        let why = "the path has a control character or a backslash";
        return refuse(RefusalRule::InvalidName, why);
    }
    let mut path = text;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() || path == "." {
        return Ok(String::new());
    }
    let mut depth = 0;
    for name in path.split('/') {
        depth += 1;
        if name.is_empty() || name == "." {
            return refuse(RefusalRule::InvalidName, "the path has an empty name or `.` inside");
        }
        if name.len() > limits::NAME {
            return refuse(RefusalRule::InvalidName, "a name is longer than 255 bytes");
        }
    }
    if path.len() > limits::PATH || depth > limits::DEPTH {
        let why = format!(
            "the path is longer than {} bytes or deeper than {} folders",
            limits::PATH,
            limits::DEPTH
        );
        return refuse(RefusalRule::InvalidName, &why);
    }
    Ok(path.to_owned())
}

/// Checks whether a path leads into a folder of version control, which is never part of a skill.
pub(crate) fn is_repository(path: &str) -> bool {
    path.split('/').any(|name| fold(name) == ".git")
}

/// Returns the folders of a path, outermost first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Returns the folder of a path; empty at the top.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// What a path is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A folder.
    Folder,
    /// A file or a symlink.
    Leaf,
}

/// The paths so far. Two paths that differ only in case or in their Unicode form collide: one of
/// them would replace the other on some file systems, and readers would see different skills.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    known: HashMap<String, (String, EntryKind)>,
}

impl NameTable {
    /// Adds a path whose folders were added before. Returns whether it is new; only a folder may be
    /// added twice.
    ///
    /// # Errors
    /// The path collides with an earlier one.
    pub(crate) fn add(&mut self, path: &str, kind: EntryKind) -> Result<bool, Refusal> {
        let collides =
            |why: String| Err(Refusal::at(RefusalRule::NameCollision, path.as_bytes(), why));
        match self.known.get(&fold(path)) {
            None => {
                self.known.insert(fold(path), (path.to_owned(), kind));
                Ok(true)
            }
            Some((other, _)) if other != path => {
                let other = skillhost_policy::diagnostic::printable(other);
                collides(format!("some file systems treat this path and `{other}` as one"))
            }
            Some((_, EntryKind::Folder)) if kind == EntryKind::Folder => Ok(false),
            Some((_, EntryKind::Leaf)) if kind == EntryKind::Folder => {
                collides("the path is used as a folder, and is a file or a symlink".into())
            }
            Some(_) => collides("the path occurs twice".into()),
        }
    }
}

/// Returns the form in which two names are equal if a file system may treat them as one: canonical
/// decomposition and case folding, without the characters that some ignore.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // First to upper case, because `ß`, `ſ` and others have no lower case of their own.
    let upper: String = text.nfd().filter(|char| !is_ignored(*char)).collect::<String>();
    upper.to_uppercase().to_lowercase().nfd().filter(|char| !is_ignored(*char)).collect()
}

/// The characters that HFS+ and case-folding ext4 ignore in names.
fn is_ignored(char: char) -> bool {
    matches!(
        char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hostile_paths_are_refused() {
        use RefusalRule::*;
        let long = "a".repeat(256);
        let deep = ["d"; 65].join("/");
        let cases: [(&[u8], RefusalRule); 19] = [
            (b"/etc/passwd", AbsolutePath),
            (b"//host/share", AbsolutePath),
            (b"\\\\host\\share", AbsolutePath),
            (b"C:\\Windows", AbsolutePath),
            (b"c:relative", AbsolutePath),
            (b"..", PathTraversal),
            (b"../x", PathTraversal),
            (b"a/../../x", PathTraversal),
            (b"a/..", PathTraversal),
            (b"..\\x", PathTraversal),
            (b"a\\..\\..\\x", PathTraversal),
            (b"a\\b", InvalidName),
            (b"a\0b", InvalidName),
            (b"a\nb", InvalidName),
            (b"a\x1b[2Jb", InvalidName),
            (b"\xff", InvalidName),
            (b"a//b", InvalidName),
            (long.as_bytes(), InvalidName),
            (deep.as_bytes(), InvalidName),
        ];
        for (path, rule) in cases {
            let refusal = parse(path).expect_err(&String::from_utf8_lossy(path));
            assert_eq!(refusal.rule, rule, "{refusal}");
        }
    }

    #[test]
    fn ordinary_paths_are_accepted() {
        let cases = [
            ("./", ""),
            (".", ""),
            ("./a/b.txt", "a/b.txt"),
            ("a/", "a"),
            ("a/..b", "a/..b"),
            ("Übersicht/日本.md", "Übersicht/日本.md"),
        ];
        for (path, expected) in cases {
            assert_eq!(parse(path.as_bytes()).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn names_that_a_file_system_may_treat_as_one_collide() {
        let pairs = [
            ("SKILL.md", "skill.md"),
            ("e\u{301}", "\u{e9}"),
            ("STRASSE", "straße"),
            ("k", "\u{212a}"),
            ("s", "ſ"),
            ("a\u{200b}b", "ab"),
            ("\u{c5}", "\u{212b}"),
        ];
        for (first, second) in pairs {
            let mut names = NameTable::default();
            names.add(first, EntryKind::Leaf).unwrap();
            let refusal = names.add(second, EntryKind::Leaf).expect_err(second);
            assert_eq!(refusal.rule, RefusalRule::NameCollision, "{first} {second}");
        }
        assert!(
            is_repository("a/.GIT/config")
                && is_repository(".g\u{200c}it")
                && !is_repository(".gitignore")
        );
    }

    #[test]
    fn one_path_has_one_entry() {
        let mut names = NameTable::default();
        assert_eq!(names.add("a", EntryKind::Folder), Ok(true));
        assert_eq!(names.add("a", EntryKind::Folder), Ok(false));
        assert!(names.add("a", EntryKind::Leaf).is_err());
        assert_eq!(names.add("a/b", EntryKind::Leaf), Ok(true));
        assert!(names.add("a/b", EntryKind::Leaf).is_err());
        assert!(names.add("a/b", EntryKind::Folder).is_err());
    }

    proptest! {
        #[test]
        fn accepted_paths_stay_below_their_folder(raw in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(path) = parse(&raw) {
                let parts: Vec<_> = std::path::Path::new(&path).components().collect();
                let is_normal = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
                prop_assert!(parts.iter().all(is_normal), "{path}");
                prop_assert_eq!(parse(path.as_bytes()), Ok(path.clone()));
            }
        }

        #[test]
        fn folding_is_idempotent(text in ".{0,20}") {
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
        }
    }
}
