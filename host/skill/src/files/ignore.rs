//! `.skillignore` in a skill's folder: the files and folders that are not part of the skill, as
//! patterns in the syntax of [gitignore](https://git-scm.com/docs/gitignore).
//!
//! The skill writes the patterns, so their size and number are limited. Each pattern becomes a
//! regular expression that is matched in linear time.

use std::io;

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType};

use super::read_bounded;

/// The name of the file, which is a regular file in the skill's own folder.
pub(super) const NAME: &str = ".skillignore";
/// Bytes of the file.
const MAX_SIZE: u64 = 16 << 10;
/// Lines of the file, including comments.
const MAX_LINES: usize = 256;

/// The patterns of a skill's `.skillignore`.
pub(super) struct Ignore(Gitignore);

impl Ignore {
    /// Reads the patterns of a skill. Returns `None` if it has no `.skillignore`.
    ///
    /// # Errors
    /// A message if the file is not a regular file, cannot be read, exceeds a limit, or contains an
    /// invalid pattern.
    pub(super) fn read(root: &Dir) -> Result<Option<Ignore>, String> {
        match rustix::fs::statat(root, NAME, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                return Err("this is not a regular file".into());
            }
            _ => {}
        }
        let bytes =
            read_bounded(root, NAME, MAX_SIZE).map_err(|error: io::Error| error.to_string())?;
        let text = str::from_utf8(&bytes).map_err(|_| "the file is not valid UTF-8")?;
        Ignore::parse(text).map(Some)
    }

    fn parse(text: &str) -> Result<Ignore, String> {
        if text.lines().count() > MAX_LINES {
            return Err(format!("the file has more than {MAX_LINES} lines"));
        }
        let mut patterns = GitignoreBuilder::new("");
        for (number, line) in (1..).zip(text.lines()) {
            patterns
                .add_line(None, line)
                .map_err(|error| format!("line {number}: invalid pattern: {error}"))?;
        }
        patterns.build().map(Ignore).map_err(|error| format!("cannot use the patterns: {error}"))
    }

    /// Checks whether the patterns leave out an entry whose folder they do not leave out. SKILL.md
    /// and `.skillignore` itself are always part of the skill.
    pub(super) fn leaves_out(&self, path: &str, is_folder: bool) -> bool {
        !path.eq_ignore_ascii_case("SKILL.md")
            && path != NAME
            && self.0.matched(path, is_folder).is_ignore()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_the_meaning_of_gitignore() {
        let ignore = Ignore::parse(
            "# build output\n/target/\n*.log\n!keep.log\ndocs/*.tmp\n\n**/cache/\n\\#odd\n",
        )
        .unwrap();
        for (path, is_folder, is_left_out) in [
            ("target", true, true),
            ("target", false, false),
            ("src/target", true, false),
            ("a.log", false, true),
            ("src/a.log", false, true),
            ("keep.log", false, false),
            ("docs/a.tmp", false, true),
            ("src/docs/a.tmp", false, false),
            ("src/deep/cache", true, true),
            ("#odd", false, true),
            ("SKILL.md", false, false),
        ] {
            assert_eq!(ignore.leaves_out(path, is_folder), is_left_out, "{path}");
        }
    }

    #[test]
    fn manifest_and_ignore_file_are_never_left_out() {
        let ignore = Ignore::parse("*\n").unwrap();
        for path in ["SKILL.md", "skill.md", NAME] {
            assert!(!ignore.leaves_out(path, false), "{path}");
        }
        assert!(ignore.leaves_out("docs/SKILL.md", false));
    }

    #[test]
    fn invalid_patterns_are_errors_with_their_line() {
        let error = Ignore::parse("/target\n{a\n").err().unwrap();
        assert!(error.starts_with("line 2: invalid pattern: "), "{error}");
    }

    #[test]
    fn number_of_lines_is_limited() {
        assert!(Ignore::parse(&"a\n".repeat(MAX_LINES)).is_ok());
        assert!(Ignore::parse(&"a\n".repeat(MAX_LINES + 1)).is_err());
    }
}
