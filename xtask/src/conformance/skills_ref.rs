//! `cargo xtask conformance skills-ref`: compares what `skillhost check` says about many skills with
//! what the reference library of the Agent Skills specification says.
//!
//! The intended differences are the rows of a table in `docs/reference/conformance.md`, with their
//! reasons. Any other difference fails, and so does a row without its difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use skillhost_toolchain::{Error, Progress};

use crate::{clients, print_line, workspace};

/// A difference between the two programs, in the words of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    OnlyWeAccept,
    OnlyTheyAccept,
    OtherName,
    OtherDescription,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::OnlyWeAccept => "only skillhost accepts it",
            Difference::OnlyTheyAccept => "only skills-ref accepts it",
            Difference::OtherName => "another name",
            Difference::OtherDescription => "another description",
        })
    }
}

/// What a program says about one skill.
#[derive(Debug, Deserialize)]
struct Verdict {
    /// Empty if it accepts the skill.
    errors: Vec<String>,
    name: Option<String>,
    description: Option<String>,
}

/// Runs both programs on the skills of this repository, the cases of `tests/cases/skill`, and the
/// frontmatter of `tests/clients/skills-ref/cases.txt`.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    super::build_host(progress)?;
    clients::python("skills-ref", progress)?;
    let source = root.join("tests/clients/skills-ref");
    let skills = [
        folders(&root.join("skills"))?,
        stored_cases(&root.join("tests/cases/skill"))?,
        write_cases(&source.join("cases.txt"), &clients::folder("skills-ref").join("cases"))?,
    ]
    .concat();
    let theirs = their_verdicts(&source.join("verdicts.py"), &skills)?;
    let ours = our_verdicts(&skills)?;
    let mut found = BTreeSet::new();
    for skill in &skills {
        let (Some(our), Some(their)) = (ours.get(skill), theirs.get(skill)) else {
            return Err(Error::new(format!("{}: there is no verdict", skill.display())));
        };
        let case = case_name(skill);
        if let Some(difference) = difference(our, their) {
            found.insert((case, difference.to_string()));
        }
    }
    let page = root.join("docs/reference/conformance.md");
    let text = fs::read_to_string(&page).map_err(Error::context(page.display()))?;
    let intended = intended(&text);
    for (case, difference) in found.difference(&intended) {
        let said = skills.iter().find(|skill| case_name(skill) == *case);
        let errors = |all: &BTreeMap<PathBuf, Verdict>| {
            said.and_then(|skill| all.get(skill)).map(|verdict| format!("{verdict:?}"))
        };
        print_line(format!("{case}: {difference}"));
        print_line(format!("  skillhost:  {}", errors(&ours).unwrap_or_default()));
        print_line(format!("  skills-ref: {}", errors(&theirs).unwrap_or_default()));
    }
    for (case, difference) in intended.difference(&found) {
        print_line(format!("{case}: listed as `{difference}`, which is no longer the case"));
    }
    print_line(format!(
        "{} skills: {} differ, {} of them as listed",
        skills.len(),
        found.len(),
        found.intersection(&intended).count()
    ));
    if found == intended {
        Ok(())
    } else {
        Err(Error::new("the differences are not those of docs/reference/conformance.md"))
    }
}

fn difference(ours: &Verdict, theirs: &Verdict) -> Option<Difference> {
    match (ours.errors.is_empty(), theirs.errors.is_empty()) {
        (true, false) => Some(Difference::OnlyWeAccept),
        (false, true) => Some(Difference::OnlyTheyAccept),
        (false, false) => None,
        (true, true) if ours.name != theirs.name => Some(Difference::OtherName),
        (true, true) => {
            (ours.description != theirs.description).then_some(Difference::OtherDescription)
        }
    }
}

/// Reads the table of intended differences: each row has the difference, the cases and the reason.
fn intended(page: &str) -> BTreeSet<(String, String)> {
    let mut intended = BTreeSet::new();
    let rows = page.lines().skip_while(|line| !line.starts_with("| difference | cases |")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, difference, cases, ..] = cells.as_slice() else { continue };
        let names = cases.split('`').skip(1).step_by(2);
        intended.extend(names.map(|case| (case.to_owned(), (*difference).to_owned())));
    }
    intended
}

/// The name of a case. Those of `cases.txt` start with `text/`, and those of the repository's tests
/// with `case/`.
fn case_name(skill: &Path) -> String {
    let name = skill.file_name().unwrap_or_default().to_string_lossy();
    let parent = skill.parent().unwrap_or(skill);
    match parent.file_name().unwrap_or_default().to_str() {
        Some("skills") => name.into_owned(),
        Some("cases") => format!("text/{name}"),
        _ => format!("case/{name}"),
    }
}

/// Returns the folders in a folder that contain a SKILL.md.
fn folders(of: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(of).map_err(Error::context(of.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("SKILL.md").is_file())
        .collect();
    found.sort();
    Ok(found)
}

/// Returns the skills of the cases that are stored in the repository: each is in a folder of its
/// name.
fn stored_cases(of: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let entries = fs::read_dir(of).map_err(Error::context(of.display()))?;
    for entry in entries.flatten() {
        if entry.path().is_dir() {
            found.extend(folders(&entry.path())?);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the skills of `cases.txt` below a folder.
fn write_cases(cases: &Path, to: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read_to_string(cases).map_err(Error::context(cases.display()))?;
    drop(fs::remove_dir_all(to));
    let mut skills = Vec::new();
    for case in text.split("\n=== ").skip(1) {
        let (name, frontmatter) = case.split_once('\n').unwrap_or((case, ""));
        let mut skill = format!("{frontmatter}\n")
            .replace("NAME", name)
            .replace("\\u{feff}", "\u{feff}")
            .replace("\\r\n", "\r\n")
            .replace("\\n\n", "\n");
        for count in [501, 1024, 1025] {
            skill = skill.replace(&format!("{count}*x"), &"x".repeat(count));
        }
        let folder = to.join(name);
        fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
        let file = folder.join("SKILL.md");
        fs::write(&file, skill + "\nInstructions.\n").map_err(Error::context(file.display()))?;
        skills.push(folder);
    }
    Ok(skills)
}

fn their_verdicts(script: &Path, skills: &[PathBuf]) -> Result<BTreeMap<PathBuf, Verdict>, Error> {
    let python = clients::folder("skills-ref").join("bin/python");
    let output = Command::new(&python)
        .arg(script)
        .args(skills)
        .output()
        .map_err(Error::context(python.display()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        Error::new(format!("skills-ref: {error}\n{}", String::from_utf8_lossy(&output.stderr)))
    })
}

fn our_verdicts(skills: &[PathBuf]) -> Result<BTreeMap<PathBuf, Verdict>, Error> {
    #[derive(Deserialize)]
    struct CheckReport {
        skills: Vec<Report>,
    }
    #[derive(Deserialize)]
    struct Report {
        path: PathBuf,
        name: Option<String>,
        description: Option<String>,
        diagnostics: Vec<Diagnostic>,
    }
    #[derive(Deserialize)]
    struct Diagnostic {
        severity: String,
        rule: String,
        message: String,
    }
    let output = Command::new(super::host())
        .args(["check", "--json"])
        .args(skills)
        .output()
        .map_err(Error::context("skillhost check"))?;
    let report: CheckReport = serde_json::from_slice(&output.stdout).map_err(|error| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Error::new(format!("skillhost check: {error}\n{stderr}"))
    })?;
    let verdict = |Report { path, name, description, diagnostics }| {
        let errors = diagnostics.into_iter().filter(|one: &Diagnostic| one.severity == "error");
        let errors = errors.map(|one| format!("{}: {}", one.rule, one.message)).collect();
        (path, Verdict { errors, name, description })
    };
    Ok(report.skills.into_iter().map(verdict).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(error: &str, name: &str, description: &str) -> Verdict {
        Verdict {
            errors: Some(error.to_owned()).filter(|error| !error.is_empty()).into_iter().collect(),
            name: Some(name.to_owned()),
            description: Some(description.to_owned()),
        }
    }

    #[test]
    fn differences_are_verdicts_names_and_descriptions() {
        let good = verdict("", "a", "text");
        for (other, expected) in [
            (verdict("", "a", "text"), None),
            (verdict("error", "a", "text"), Some(Difference::OnlyWeAccept)),
            (verdict("", "b", "text"), Some(Difference::OtherName)),
            (verdict("", "a", "tex"), Some(Difference::OtherDescription)),
        ] {
            assert_eq!(difference(&good, &other), expected);
        }
        let bad = verdict("error", "a", "text");
        assert_eq!(difference(&bad, &good), Some(Difference::OnlyTheyAccept));
        assert_eq!(difference(&bad, &verdict("another", "b", "")), None);
    }

    #[test]
    fn intended_differences_are_the_rows_of_the_first_table_with_cases() {
        let page = "| difference | cases | reason |\n|---|---|---|\n\
                    | only skillhost accepts it | `a`, `text/b` | a `reason` |\n\n| x | `c` | |\n";
        let of = |case: &str| (case.to_owned(), Difference::OnlyWeAccept.to_string());
        assert_eq!(intended(page), [of("a"), of("text/b")].into());
    }
}
