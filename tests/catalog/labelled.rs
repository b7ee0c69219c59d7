//! The quality of search ranking: 200 skills, and queries with the skills that fit. A test fails if
//! the figures get worse.

use std::collections::BTreeMap;
use std::path::Path;

use skillhost_catalog::{Catalog, Query, Source, SourceKind};

const SKILLS: &str = include_str!("../search/skills.txt");
const QUERIES: &str = include_str!("../search/queries.txt");

/// The results of the queries.
#[derive(Debug, Default)]
pub struct Figures {
    /// The number of queries.
    pub questions: usize,
    /// The share of queries with a right skill among the first five hits.
    pub recall_at_5: f64,
    /// The mean reciprocal rank of the first right skill, among the first ten hits.
    pub reciprocal_rank: f64,
    /// The queries without a right skill among the first five hits, with what they found.
    pub missed: Vec<(String, Vec<String>)>,
}

/// Runs every query.
pub fn figures() -> Figures {
    let folder = tempfile::tempdir().unwrap();
    write_skills(folder.path());
    let source = Source::new(folder.path().to_owned(), SourceKind::User);
    let catalog = Catalog::open(vec![source], None).unwrap();
    assert_eq!((catalog.entries().len(), catalog.problems().len()), (200, 0));
    let mut figures = Figures::default();
    for (question, right) in questions() {
        assert!(right.iter().all(|name| catalog.get(name).is_some()), "{question}: {right:?}");
        let hits = catalog.search(&Query { text: question.clone(), ..Query::default() }).unwrap();
        let names: Vec<String> = hits.into_iter().map(|hit| hit.entry.name.to_string()).collect();
        let place = names.iter().position(|name| right.contains(name));
        figures.questions += 1;
        figures.reciprocal_rank += place.map_or(0.0, |place| 1.0 / (place + 1) as f64);
        match place {
            Some(0..5) => figures.recall_at_5 += 1.0,
            _ => figures.missed.push((question, names)),
        }
    }
    figures.recall_at_5 /= figures.questions as f64;
    figures.reciprocal_rank /= figures.questions as f64;
    figures
}

/// Writes the skills into a folder.
fn write_skills(folder: &Path) {
    for line in lines(SKILLS) {
        let [name, tags, description, body] =
            line.split(" | ").collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line}"));
        std::fs::create_dir(folder.join(name)).unwrap();
        let text = format!(
            "---\nname: {name}\ndescription: >-\n  {description}\nmetadata:\n  tags: {tags}\n---\n\n# {name}\n\n{body}\n"
        );
        std::fs::write(folder.join(name).join("SKILL.md"), text).unwrap();
    }
}

fn questions() -> BTreeMap<String, Vec<String>> {
    let question = |line: &str| {
        let (question, right) = line.split_once(" => ").unwrap_or_else(|| panic!("{line}"));
        (question.to_owned(), right.split(", ").map(str::to_owned).collect())
    };
    lines(QUERIES).map(question).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

#[test]
fn the_right_skill_is_among_the_top_five() {
    let figures = figures();
    assert!(figures.questions >= 60, "{}", figures.questions);
    assert!(figures.recall_at_5 >= 0.95, "{figures:#?}");
}
