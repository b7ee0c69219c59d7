//! What locked skills require of each other: every required skill is locked, in a version that fits,
//! and no skill requires itself through others. Problems are reported with the chain that caused them.

use std::collections::{BTreeMap, BTreeSet};

use skillhost_policy::diagnostic::printable;
use skillhost_policy::manifest::requires::{self, Required};

use crate::error::SourceError;
use crate::lock::LockedSkill;

/// The most skills on a chain.
const MAX_DEPTH: usize = 32;

/// Checks what every skill requires.
///
/// # Errors
/// The first problem, with its chain.
pub fn check(skills: &BTreeMap<String, LockedSkill>) -> Result<(), SourceError> {
    let mut checked = BTreeSet::new();
    skills.keys().try_for_each(|name| visit(skills, &mut vec![name], &mut checked))
}

/// Returns the skills that a skill requires, directly or through others, by name. The caller has
/// checked them.
pub fn closure<'a>(
    skills: &'a BTreeMap<String, LockedSkill>,
    name: &str,
) -> BTreeMap<&'a str, &'a LockedSkill> {
    let mut found = BTreeMap::new();
    let mut waiting: Vec<String> = vec![name.to_owned()];
    while let Some(next) = waiting.pop() {
        let Some(skill) = skills.get(&next) else { continue };
        for (required, _) in of(skill) {
            if let Some((name, skill)) = skills.get_key_value(&required)
                && found.insert(name.as_str(), skill).is_none()
            {
                waiting.push(required);
            }
        }
    }
    // A cycle is refused when it is locked; a skill is never its own requirement.
    found.remove(name);
    found
}

/// The skills that a skill requires, with the versions that fit.
fn of(skill: &LockedSkill) -> Vec<(String, semver::VersionReq)> {
    let parsed = skill.requires.iter().filter_map(|line| requires::required(line).ok());
    parsed
        .filter_map(|one| match one {
            Required::Skill { name, version } => Some((name, version)),
            _ => None,
        })
        .collect()
}

fn visit<'a>(
    skills: &'a BTreeMap<String, LockedSkill>,
    chain: &mut Vec<&'a str>,
    checked: &mut BTreeSet<&'a str>,
) -> Result<(), SourceError> {
    let Some(name) = chain.last().copied().filter(|name| !checked.contains(name)) else {
        return Ok(());
    };
    let Some(skill) = skills.get(name) else { return Ok(()) };
    for (required, wanted) in of(skill) {
        let shown = || {
            let names: Vec<&str> = chain.iter().copied().chain([required.as_str()]).collect();
            printable(&names.join(" -> "))
        };
        if chain.contains(&required.as_str()) {
            let why = format!("skills require each other: {}", shown());
            return Err(SourceError::request(why, "remove one of them: skillhost remove NAME"));
        }
        if chain.len() == MAX_DEPTH {
            let why = format!("more than {MAX_DEPTH} skills require each other: {}", shown());
            return Err(SourceError::request(why, "remove some of them: skillhost remove NAME"));
        }
        let Some((required, found)) = skills.get_key_value(&required) else {
            let why = format!(
                "`{name}` requires the skill `{required}`, which is not locked ({})",
                shown()
            );
            return Err(SourceError::request(why, format!("skillhost add SOURCE --as {required}")));
        };
        let version = found.version.as_deref().and_then(requires::version);
        if wanted != semver::VersionReq::STAR
            && !version.as_ref().is_some_and(|version| wanted.matches(version))
        {
            let found = version.map_or("has no version".to_owned(), |one| format!("is {one}"));
            let why =
                format!("`{name}` requires `{required}` {wanted}, which {found} ({})", shown());
            let fix = format!("skillhost update {required}, or add another version of one of them");
            return Err(SourceError::request(why, fix));
        }
        chain.push(required);
        visit(skills, chain, checked)?;
        chain.pop();
    }
    checked.insert(name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Listing;

    fn skills(all: &[(&str, &str, &[&str])]) -> BTreeMap<String, LockedSkill> {
        let skill = |version: &str, requires: &[&str]| LockedSkill {
            source: "./x".into(),
            path: String::new(),
            submodules: false,
            revision: "folder".into(),
            digest: Listing::default().digest(),
            content: String::new(),
            version: Some(version.to_owned()).filter(|version| !version.is_empty()),
            component: None,
            permissions: Vec::new(),
            requires: requires.iter().map(|line| (*line).to_owned()).collect(),
            signatures: Vec::new(),
            files: Listing::default(),
        };
        let skill = |(name, version, requires): &(&str, &str, &[&str])| {
            ((*name).to_owned(), skill(version, requires))
        };
        all.iter().map(skill).collect()
    }

    fn problem(all: &[(&str, &str, &[&str])]) -> String {
        check(&skills(all)).unwrap_err().to_string()
    }

    #[test]
    fn requirements_that_fit_are_accepted() {
        let all = skills(&[
            ("report", "1.0.0", &["charts ^1.2", "fonts", "command jq", "python pandas>=2"]),
            ("charts", "1.3.0", &["fonts >=2, <3"]),
            ("fonts", "2.1", &[]),
            ("other", "", &[]),
        ]);
        check(&all).unwrap();
        assert_eq!(closure(&all, "report").into_keys().collect::<Vec<_>>(), ["charts", "fonts"]);
        assert!(closure(&all, "fonts").is_empty());
    }

    #[test]
    fn problems_name_the_chain_that_caused_them() {
        assert_eq!(
            problem(&[("a", "1", &["b"]), ("b", "1", &["c ^2"]), ("c", "1.3.0", &[])]),
            "`b` requires `c` ^2, which is 1.3.0 (a -> b -> c)"
        );
        assert_eq!(
            problem(&[("a", "1", &["b"]), ("b", "1", &["c"])]),
            "`b` requires the skill `c`, which is not locked (a -> b -> c)"
        );
        assert_eq!(
            problem(&[("a", "1", &["b"]), ("b", "1", &["c"]), ("c", "1", &["a"])]),
            "skills require each other: a -> b -> c -> a"
        );
        assert_eq!(problem(&[("a", "1", &["a"])]), "skills require each other: a -> a");
        assert_eq!(
            problem(&[("a", "1", &["b ^1"]), ("b", "", &[])]),
            "`a` requires `b` ^1, which has no version (a -> b)"
        );
    }

    #[test]
    fn conflict_names_both_requirements() {
        let all = [("a", "1", &["c ^1"] as &[&str]), ("b", "1", &["c ^2"]), ("c", "1.0.0", &[])];
        assert_eq!(problem(&all), "`b` requires `c` ^2, which is 1.0.0 (b -> c)");
    }

    #[test]
    fn long_chains_end() {
        let names: Vec<String> = (0..100).map(|number| format!("s{number:03}")).collect();
        let next: Vec<[&str; 1]> = names.iter().skip(1).map(|name| [name.as_str()]).collect();
        let all: Vec<(&str, &str, &[&str])> = names
            .iter()
            .zip(&next)
            .map(|(name, next)| (name.as_str(), "1", next.as_slice()))
            .collect();
        assert!(problem(&all).starts_with("more than 32 skills"));
    }
}
