//! The figures in the README and in docs/design/performance.md, written from the run that is committed.

use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, files};

use super::report::Report;
use super::{charts, page, table};
use crate::workspace;

const BEGIN: &str =
    "<!-- isolation: written from docs/figures/isolation.json by `cargo xtask bench readme` -->";
const END: &str = "<!-- /isolation -->";

/// The committed run.
pub(crate) fn committed() -> PathBuf {
    folder().join("isolation.json")
}

/// Where committed runs are, and what is made from them.
pub(crate) fn folder() -> PathBuf {
    workspace::root().join("docs/figures")
}

/// Commits a run: its JSON, its page, the chart of the README and the README itself.
pub(crate) fn commit(report: &Report) -> Result<(), Error> {
    files::write_if_changed(&committed(), report.text().as_bytes())?;
    write()
}

/// Writes what is made from the committed run anew.
pub(crate) fn write() -> Result<(), Error> {
    for (path, text) in made(kept()?.as_ref())? {
        files::write_if_changed(&path, text.as_bytes())?;
    }
    Ok(())
}

/// The committed run, where there is one.
fn kept() -> Result<Option<Report>, Error> {
    if committed().is_file() { Report::load(&committed()).map(Some) } else { Ok(None) }
}

/// What is in the place of figures until there are some.
const NONE: &str = "No run is committed: `cargo xtask bench isolation --commit` makes one.";

/// The files that are made from a report, README included.
fn made(report: Option<&Report>) -> Result<Vec<(PathBuf, String)>, Error> {
    let document = |name: &str, section: &str| {
        let path = workspace::root().join(name);
        let text = std::fs::read_to_string(&path).map_err(Error::context(name))?;
        let text = with_section(&text, (BEGIN, END), section).map_err(Error::context(name))?;
        Ok::<_, Error>((path, text))
    };
    let Some(report) = report else {
        return Ok(vec![
            document("README.md", NONE)?,
            document("docs/design/performance.md", NONE)?,
        ]);
    };
    let mut made = vec![
        document("README.md", &table::short(report))?,
        document("docs/design/performance.md", &figures(report))?,
        (folder().join("isolation.html"), page::page(report)?),
    ];
    for chart in charts::all(report)?.into_iter().filter(|chart| !chart.svg.is_empty()) {
        made.push((folder().join(format!("{}.svg", chart.id)), chart.svg));
    }
    Ok(made)
}

/// What the README has, with the chart and the page of all figures.
fn figures(report: &Report) -> String {
    let chart = "![Start-up by tier, on a logarithmic scale](../figures/start-up.svg)";
    let page = "[All figures and charts](../figures/isolation.html) are on a separate page.";
    format!("{}\n{chart}\n\n{}\n\n{page}\n", table::short(report), charts::START_UP)
}

/// The text with the section between two lines replaced.
pub(crate) fn with_section(
    text: &str,
    (begin, end): (&str, &str),
    section: &str,
) -> Result<String, Error> {
    let lacks = |line: &str| Error::new(format!("there is no line `{line}`"));
    let (before, rest) = text.split_once(begin).ok_or_else(|| lacks(begin))?;
    let (_, after) = rest.split_once(end).ok_or_else(|| lacks(end))?;
    Ok(format!("{before}{begin}\n{}\n{end}{after}", section.trim_end()))
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
    fn files_generated_from_the_committed_run_are_current() {
        for (path, text) in made(kept().unwrap().as_ref()).unwrap() {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == text,
                "{} is not what `cargo xtask bench readme` writes",
                path.display()
            );
        }
    }

    #[test]
    fn a_run_makes_the_sections_the_page_and_the_charts() {
        let made = made(Some(&report())).unwrap();
        let names: Vec<String> = made
            .iter()
            .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        let charts = [
            "phases.svg",
            "start-up.svg",
            "throughput.svg",
            "memory.svg",
            "input.svg",
            "growth.svg",
        ];
        assert_eq!(
            names,
            [&["README.md", "performance.md", "isolation.html"][..], &charts].concat()
        );
        assert!(made[1].1.contains("(../figures/start-up.svg)"), "{}", made[1].1);
        for (_, document) in &made[..2] {
            assert!(
                !document.contains(NONE) && document.contains("| skillhost, cold | 3.0 ms "),
                "{document}"
            );
        }
    }

    #[test]
    fn only_the_section_is_replaced() {
        let text = format!("# A\n\n{BEGIN}\noutdated\n{END}\n\n# B\n");
        let new = with_section(&text, (BEGIN, END), &figures(&report())).unwrap();
        assert!(
            new.starts_with("# A\n\n")
                && new.ends_with(&format!("{END}\n\n# B\n"))
                && !new.contains("outdated"),
            "{new}"
        );
        assert!(new.contains("| skillhost, cold | 3.0 ms (0.30) |"), "{new}");
        assert_eq!(with_section(&new, (BEGIN, END), &figures(&report())).unwrap(), new);
        assert!(with_section("# A\n", (BEGIN, END), "x").is_err());
    }

    #[test]
    fn a_report_is_the_same_after_a_file() {
        let folder = workspace::root().join("target/bench-test");
        keep(&report(), &folder).unwrap();
        assert_eq!(Report::load(&folder.join("isolation.json")).unwrap(), report());
    }
}
