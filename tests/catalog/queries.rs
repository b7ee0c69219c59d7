//! Search queries: any text is valid.

use proptest::prelude::*;
use skillhost_catalog::{Catalog, Query, SkillRuntime, estimate_tokens};

use super::{Place, write};

/// Four skills.
fn place() -> Place {
    let place = Place::new();
    let skill = |name: &str, more: &str, description: &str, body: &str| {
        write(
            &place.path(&format!("all/{name}")),
            &format!("description: {description}\n{more}"),
            body,
        )
    };
    skill(
        "pdf-tables",
        "metadata:\n  tags: documents\n",
        "Extracts tables from PDF files.",
        "Uses a grid.\n",
    );
    let csv = skill(
        "csv-report",
        "metadata:\n  category: Data\n",
        "Profiles a CSV file.",
        "Prints quartiles and histograms.\n",
    );
    std::fs::write(csv.join("x.py"), "").unwrap();
    skill(
        "web-fetch",
        "allowed-tools: WebFetch\n",
        "Fetches a page and returns its readable text.",
        "NEAR the AND of OR pages.\n",
    );
    skill("uebersetzung", "", "Übersetzt Texte in andere Sprachen.", "");
    place
}

fn find(catalog: &Catalog, text: &str) -> Vec<String> {
    let hits = catalog.search(&Query { text: text.into(), ..Query::default() }).unwrap();
    hits.into_iter().map(|hit| hit.entry.name.to_string()).collect()
}

#[test]
fn words_are_found_in_every_field() {
    let place = place();
    let catalog = place.open("all");
    assert_eq!(find(&catalog, "pdf"), ["pdf-tables"]);
    assert_eq!(find(&catalog, "extracting a TABLE"), ["pdf-tables"], "by the stem");
    assert_eq!(find(&catalog, "quartile"), ["csv-report"], "in the body");
    assert_eq!(find(&catalog, "documents"), ["pdf-tables"], "a tag");
    assert_eq!(find(&catalog, "ubersetzt"), ["uebersetzung"], "without its accent");
    assert_eq!(find(&catalog, "nothing of this kind"), [""; 0]);
    assert_eq!(find(&catalog, "?!…"), [""; 0], "a text without words");
    assert_eq!(find(&catalog, "").len(), 4, "every skill");
    assert_eq!(find(&catalog, "of the")[0], "web-fetch", "stop words count if there are no others");
}

#[test]
fn typos_and_unfinished_words_are_tolerated() {
    let place = place();
    let catalog = place.open("all");
    for typo in [
        "tabels from pdfs",
        "extarct",
        "profils",
        "readible",
        "redable txt",
        "ptf-tables",
        "spracehn",
    ] {
        assert!(!find(&catalog, typo).is_empty(), "{typo}");
    }
    assert_eq!(find(&catalog, "extr"), ["pdf-tables"]);
    assert_eq!(find(&catalog, "profiles a fil").first().unwrap(), "csv-report");
    assert_eq!(find(&catalog, "extr pdf"), ["pdf-tables"], "only the last word may be incomplete");
    assert_eq!(find(&catalog, "zzz"), [""; 0]);
}

#[test]
fn filters_apply() {
    let place = place();
    let catalog = place.open("all");
    let with = |change: fn(&mut Query)| {
        let mut query = Query::default();
        change(&mut query);
        catalog
            .search(&query)
            .unwrap()
            .into_iter()
            .map(|hit| hit.entry.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(with(|query| query.tag = Some("DATA".into())), ["csv-report"]);
    assert_eq!(with(|query| query.runtime = Some(SkillRuntime::Python)), ["csv-report"]);
    assert_eq!(
        with(|query| query.runtime = Some(SkillRuntime::Instructions)),
        ["pdf-tables", "uebersetzung", "web-fetch"]
    );
    assert_eq!(with(|query| query.network = Some(true)), ["web-fetch"]);
    assert_eq!(with(|query| query.limit = 2).len(), 2);
    assert_eq!(
        with(|query| (query.text, query.network) = ("file page".into(), Some(false))),
        ["csv-report", "pdf-tables"]
    );
    catalog.set_enabled(|entry| !entry.network);
    assert_eq!(with(|query| query.enabled = Some(false)), ["web-fetch"]);
    assert_eq!(with(|query| query.enabled = Some(true)).len(), 3);
    assert!(!catalog.prompt(10_000).text.contains("web-fetch"), "agents see enabled skills");
}

#[test]
fn nothing_in_a_query_is_syntax() {
    let place = place();
    let catalog = place.open("all");
    for text in [
        "\"",
        "\"pdf",
        "'",
        "pdf*",
        "*",
        "^pdf",
        "name:pdf",
        "{name body}: pdf",
        "pdf AND",
        "NOT pdf",
        "(",
        "NEAR(pdf tables, 1)",
        "a-b",
        "+",
        "pdf; DROP TABLE skill",
        "\0pdf",
        "pdf\\",
        "--",
        "%",
        "pdf OR",
        ":",
        "-pdf",
    ] {
        let found = find(&catalog, text);
        assert_eq!(
            found.contains(&"pdf-tables".to_owned()),
            text.contains("pdf"),
            "{text:?}: {found:?}"
        );
    }
    // A keyword of the query language is an ordinary word.
    assert_eq!(find(&catalog, "NEAR"), ["web-fetch"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_is_a_query(text in "(\\PC|[\"'*^:(){}+\\-]|AND|OR|NOT|NEAR|pdf|tables|\0|\n| ){0,40}", limit in 0usize..5) {
        static PLACE: std::sync::LazyLock<(Place, Catalog)> = std::sync::LazyLock::new(|| {
            let place = place();
            let catalog = place.open("all");
            (place, catalog)
        });
        let (_, catalog) = &*PLACE;
        let hits = catalog.search(&Query { text, limit, ..Query::default() }).unwrap();
        prop_assert!(hits.len() <= limit);
        prop_assert!(hits.windows(2).all(|two| two[0].score >= two[1].score && two[0].entry.name != two[1].entry.name));
    }
}

#[test]
fn a_prompt_fits_its_budget_and_says_what_is_cut() {
    let place = Place::new();
    for number in 0..40 {
        place.skill(
            &format!("all/skill-{number:02}"),
            &format!("Does <thing> {number} & more. {}", "A word or two. ".repeat(20)),
        );
    }
    let catalog = place.open("all");
    let whole = catalog.prompt(100_000);
    assert_eq!((whole.shortened, whole.dropped, whole.omissions()), (0, 0, None));
    assert!(
        whole
            .text
            .contains("<name>skill-07</name><description>Does &lt;thing&gt; 7 &amp; more. A word")
    );
    assert!(
        !whole.text.contains("<location>")
            && !whole.text.contains(&place.path("").display().to_string())
    );
    let location =
        format!("<location>{}</location>", place.path("all/skill-00/SKILL.md").display());
    assert!(catalog.prompt_with_locations(100_000).text.contains(&location));
    let mut before = whole;
    for budget in [3_500, 2_500, 2_000, 1_000, 500, 100, 30] {
        let prompt = catalog.prompt(budget);
        assert!(
            prompt.tokens <= budget && prompt.tokens == estimate_tokens(&prompt.text),
            "{budget}: {}",
            prompt.tokens
        );
        assert!(
            prompt.shortened + prompt.dropped > 0 && prompt.dropped >= before.dropped,
            "{budget}"
        );
        assert!(prompt.text.contains(&prompt.omissions().unwrap()), "{budget}: {}", prompt.text);
        // Skills are omitted last, starting from the end.
        assert!(
            prompt.dropped == 0
                || !prompt
                    .text
                    .contains("A word or two. A word or two. A word or two. A word or two.")
        );
        assert_eq!(prompt.text.matches("<skill>").count(), 40 - prompt.dropped);
        assert!(prompt.dropped == 40 || prompt.text.contains("skill-00"));
        before = prompt;
    }
    assert!(before.dropped > 30);
}
