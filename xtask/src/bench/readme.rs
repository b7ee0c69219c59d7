//! The figures in the README and in docs/performance.md, written from the run that is committed.

use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, files};

use super::report::Report;
use super::{charts, page, table};
use crate::workspace;

const BEGIN: &str = "<!-- isolation: written from docs/figures/isolation.json by `cargo xtask bench readme` -->";
const END: &str = "<!-- /isolation -->";

/// The committed run.
pub(crate) fn committed() -> PathBuf {
    folder().join("isolation.json")
}

fn folder() -> PathBuf {
    workspace::root().join("docs/figures")
}

/// Commits a run: its JSON, its page, the chart of the README and the README itself.
pub(crate) fn commit(report: &Report) -> Result<(), Error> {
    files::write_if_changed(&committed(), report.text().as_bytes())?;
    write()
}

/// Writes what is made from the committed run anew.
pub(crate) fn write() -> Result<(), Error> {
    for (path, text) in made(&Report::load(&committed())?)? {
        files::write_if_changed(&path, text.as_bytes())?;
    }
    Ok(())
}

/// The files that are made from a report, README included.
fn made(report: &Report) -> Result<Vec<(PathBuf, String)>, Error> {
    let document = |name: &str, section: &str| {
        let path = workspace::root().join(name);
        let text = std::fs::read_to_string(&path).map_err(Error::context(name))?;
        let text = with_section(&text, section).map_err(Error::context(name))?;
        Ok::<_, Error>((path, text))
    };
    let mut made = vec![
        document("README.md", &section(report))?,
        document("docs/performance.md", &table::full(report).replace("\n## ", "\n### "))?,
        (folder().join("isolation.html"), page::page(report)?),
    ];
    for chart in charts::all(report)?.into_iter().filter(|chart| !chart.svg.is_empty()) {
        made.push((folder().join(format!("{}.svg", chart.id)), chart.svg));
    }
    Ok(made)
}

fn section(report: &Report) -> String {
    let chart = "![Start-up by tier, on a logarithmic scale](docs/figures/start-up.svg)";
    format!("{}\n{chart}\n", table::short(report))
}

/// The text with its section replaced.
fn with_section(text: &str, section: &str) -> Result<String, Error> {
    let lacks = |line: &str| Error::new(format!("there is no line `{line}`"));
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| lacks(BEGIN))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| lacks(END))?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", section.trim_end()))
}

/// A run's page and JSON, where they are looked at before one is committed.
pub(crate) fn keep(report: &Report, folder: &Path) -> Result<PathBuf, Error> {
    files::write_if_changed(&folder.join("isolation.json"), report.text().as_bytes())?;
    let page_file = folder.join("isolation.html");
    files::write_if_changed(&page_file, page::page(report)?.as_bytes())?;
    Ok(page_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::tests::report;

    #[test]
    fn what_is_made_from_the_committed_run_is_up_to_date() {
        for (path, text) in made(&Report::load(&committed()).unwrap()).unwrap() {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == text, "{} is not what `cargo xtask bench readme` writes", path.display());
        }
    }

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let text = format!("# A\n\n{BEGIN}\noutdated\n{END}\n\n# B\n");
        let new = with_section(&text, &section(&report())).unwrap();
        assert!(new.starts_with("# A\n\n") && new.ends_with(&format!("{END}\n\n# B\n")) && !new.contains("outdated"), "{new}");
        assert!(new.contains("| skillhost, cold | 3.0 ms (0.30) |"), "{new}");
        assert_eq!(with_section(&new, &section(&report())).unwrap(), new);
        assert!(with_section("# A\n", "x").is_err());
    }

    #[test]
    fn a_report_is_the_same_after_a_file() {
        let folder = workspace::root().join("target/bench-test");
        keep(&report(), &folder).unwrap();
        assert_eq!(Report::load(&folder.join("isolation.json")).unwrap(), report());
    }
}
