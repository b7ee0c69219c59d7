//! The goals in docs/design/performance.md, written from the run that is committed.

use std::path::PathBuf;

use skillhost_toolchain::{Error, files};

use super::super::readme::{folder, with_section};
use super::report::Report;
use super::table::{table, verdict};
use crate::workspace;

const BEGIN: &str =
    "<!-- targets: written from docs/figures/targets.json by `cargo xtask bench readme` -->";
const END: &str = "<!-- /targets -->";

/// What is in the place of figures until there are some.
const NONE: &str = "No run is committed: `cargo xtask bench targets --commit` makes one.";

/// Commits a run: its JSON, and the page.
pub(crate) fn commit(report: &Report) -> Result<(), Error> {
    files::write_if_changed(&committed(), report.text().as_bytes())?;
    write()
}

/// Writes what is made from the committed run anew.
pub(crate) fn write() -> Result<(), Error> {
    let (path, text) = made(kept()?.as_ref())?;
    files::write_if_changed(&path, text.as_bytes()).map(drop)
}

fn committed() -> PathBuf {
    folder().join("targets.json")
}

/// The committed run, where there is one.
fn kept() -> Result<Option<Report>, Error> {
    if committed().is_file() { Report::load(&committed()).map(Some) } else { Ok(None) }
}

fn made(report: Option<&Report>) -> Result<(PathBuf, String), Error> {
    let path = workspace::root().join("docs/design/performance.md");
    let text = std::fs::read_to_string(&path).map_err(Error::context(path.display()))?;
    let section = report.map_or_else(|| NONE.to_owned(), section);
    let text =
        with_section(&text, (BEGIN, END), &section).map_err(Error::context(path.display()))?;
    Ok((path, text))
}

fn section(report: &Report) -> String {
    format!("These are the project's goals. {}\n\n{}", verdict(report), table(report))
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;
    use super::*;

    #[test]
    fn files_generated_from_the_committed_run_are_current() {
        let (path, text) = made(kept().unwrap().as_ref()).unwrap();
        assert!(
            std::fs::read_to_string(&path).unwrap() == text,
            "{} is not what `cargo xtask bench readme` writes",
            path.display()
        );
    }

    #[test]
    fn a_run_makes_the_section_and_none_says_how_to_make_one() {
        let (_, text) = made(Some(&report())).unwrap();
        assert!(
            text.contains("| Python hello, cold | 6.6 ms | 11 ms (`python3 hello.py`) |")
                && !text.contains(NONE),
            "{text}"
        );
        assert!(text.contains("the project's goals. 2 of 23 are missed, "), "{text}");
        assert!(made(None).unwrap().1.contains(NONE));
    }
}
