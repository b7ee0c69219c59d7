//! Documents agree with the code: their tables, links and generated pages. `BLESS=1` rewrites the
//! generated pages.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::client_tools::{self, Meaning};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::manifest::{Manifest, ToolEntry};
use skillhost_policy::{Overrides, Policy, grant};

use crate::cli::{pinned, repository};
use crate::readme::blocks::{Document, code, pages};

#[test]
fn permission_table_matches_the_policy() {
    let workspace = Some(("/host/work".into(), MountMode::Write));
    let policy = Policy::allow_everything()
        .with_command_line(Overrides { workspace, ..Overrides::default() })
        .unwrap();
    let rows = Document::read("docs/reference/permissions.md").table("in `allowed-tools`");
    for row in &rows {
        for entry in code(&row[0]) {
            let asked = vec![ToolEntry { text: entry.to_owned(), span: None }];
            let skill =
                Manifest { name: "demo".into(), allowed_tools: Some(asked), ..Manifest::default() };
            let decisions = grant(&skill, &policy).decisions;
            let meaning = decisions[0].meaning.replace('`', "");
            // Uses a policy that allows all of it, so nothing is narrowed.
            let meaning = if entry == "WebFetch" {
                format!("{meaning}, within what the policy allows")
            } else {
                meaning
            };
            assert_eq!(row[1].replace('`', ""), meaning, "{entry}");
        }
    }
    assert!(rows.len() > 8);
}

#[test]
fn exit_codes_match_the_help() {
    let help = skillhost(&["--help"]);
    let (_, codes) = help.split_once("Exit codes").unwrap();
    let codes = codes
        .lines()
        .filter_map(|line| line.trim().split_once("  "))
        .map(|(code, means)| vec![code.to_owned(), means.to_owned()]);
    let documented = Document::read("docs/reference/exit-codes.md").table("exit code");
    assert_eq!(documented[1..], codes.collect::<Vec<_>>());
}

#[test]
fn limits_table_matches_the_code() {
    let rows = Document::read("docs/reference/limits.md").table("limit");
    let defaults = Limits::default();
    for (limit, row) in Limit::ALL.into_iter().zip(&rows) {
        let metadata = limit.in_manifest().then(|| "metadata".to_owned());
        let set = limit
            .flag()
            .map(|flag| format!("`{flag}`"))
            .into_iter()
            .chain(metadata)
            .chain(["policy".to_owned()]);
        let default = defaults.get(limit).map_or("off".to_owned(), |value| limit.show(value));
        assert_eq!(row[..3], [format!("`{limit}`"), default, set.collect::<Vec<_>>().join(", ")]);
    }
    assert_eq!(rows.len(), Limit::ALL.len());
    assert!(
        Document::read("README.md").lines.join(" ").contains(&format!("{} limits", rows.len()))
    );
}

#[test]
fn page_of_built_in_skills_lists_each_of_them() {
    let rows = Document::read("docs/guide/built-in-skills.md").table("skill");
    let listed: Vec<String> = rows.iter().map(|row| row[0].replace('`', "")).collect();
    let folders = fs::read_dir(repository("skills")).unwrap().map(|entry| entry.unwrap());
    let mut skills: Vec<String> = folders
        .filter(|entry| entry.path().join("SKILL.md").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    skills.sort();
    assert_eq!(listed, skills);
}

#[test]
fn attacks_are_listed_by_kind_and_their_tests_exist() {
    let set = |cells: Vec<String>| -> BTreeSet<String> {
        cells.iter().flat_map(|c| code(c)).map(str::to_owned).collect()
    };
    let page = Document::read("docs/design/security.md");
    let (rows, full) = (page.table("a guest cannot"), page.table("A guest cannot ..."));
    let column =
        |rows: &[Vec<String>], n: usize| set(rows.iter().map(|row| row[n].clone()).collect());
    assert_eq!(
        column(&rows, 2),
        column(&full, 1),
        "attempts: README.md and docs/design/security.md"
    );
    assert_eq!(column(&rows, 3), column(&full, 2), "tests of both tables");
    let files = fs::read_dir(repository("tests/escape")).unwrap();
    let escape: String =
        files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    for test in column(&rows, 3) {
        assert!(escape.contains(&format!("fn {test}()")), "tests/escape has no {test}");
    }
}

/// Every table of the security page ends in a column of tests, because each claim needs an existing
/// test.
#[test]
fn every_security_claim_names_existing_tests() {
    let existing = test_names();
    let tables = Document::read("docs/design/security.md").tables("test");
    assert!(tables.len() >= 2, "the security page has lost its tables");
    for row in tables.iter().flatten() {
        let named = code(row.last().unwrap());
        assert!(!named.is_empty(), "no test: {}", row[0]);
        for test in named {
            // Case files are named by their path.
            let exists = if test.contains('/') {
                repository(test).is_file()
            } else {
                existing.contains(test)
            };
            assert!(exists, "{}: the test `{test}` does not exist", row[0]);
        }
    }
}

/// The names of all functions marked `#[test]` in the host and in the integration tests.
fn test_names() -> BTreeSet<String> {
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                // Further attributes, and `async`, may stand between the attribute and the
                // function.
                let marked = text
                    .split("#[test]")
                    .chain(text.split("#[tokio::test"))
                    .filter_map(|after| after.split_once("fn "));
                names.extend(
                    marked.filter_map(|(_, name)| Some(name.split_once('(')?.0.to_owned())),
                );
            }
        }
    }
    let mut names = BTreeSet::new();
    for folder in ["tests", "host", "xtask/src"] {
        collect(&repository(folder), &mut names);
    }
    names
}

/// Links in the book stay within the book; links in other pages may lead anywhere in the
/// repository.
#[test]
fn links_lead_to_files_and_headings() {
    let others =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "guest-sdk/README.md"];
    for name in others.map(str::to_owned).into_iter().chain(pages()) {
        let document = Document::read(&name);
        let file = repository(&name);
        for (line, link) in links(&document) {
            if link.contains("://") {
                continue;
            }
            let at = format!("{name}:{line}: {link}");
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let target = target.canonicalize().unwrap_or_else(|error| panic!("{at}: {error}"));
            let book = repository("docs").canonicalize().unwrap();
            assert!(!name.starts_with("docs/") || target.starts_with(book), "{at} leaves the book");
            assert!(heading.is_empty() || anchors(&target).contains(heading), "{at}: no heading");
        }
    }
}

#[test]
fn summary_lists_every_page_once() {
    let listed: Vec<String> = links(&Document::read("docs/SUMMARY.md"))
        .into_iter()
        .map(|(_, link)| format!("docs/{link}"))
        .collect();
    let mut sorted = listed.clone();
    sorted.sort();
    let pages: Vec<String> =
        pages().into_iter().filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(sorted, pages, "docs/SUMMARY.md");
}

/// Pages of the book name files of the repository by path, because they cannot link to them.
#[test]
fn source_files_named_in_the_book_exist() {
    let folders = ["host/", "components/", "tests/", "wit/", "xtask/", "toolchain/", "guest-sdk/"];
    for name in pages() {
        for (index, line) in Document::read(&name).lines.iter().enumerate() {
            for path in code(line) {
                let named = folders.iter().any(|folder| path.starts_with(folder))
                    && !path.contains([' ', '*', '<']);
                assert!(!named || repository(path).exists(), "{name}:{}: {path}", index + 1);
            }
        }
    }
}

/// Returns the links outside of code blocks, with their line numbers.
fn links(document: &Document) -> Vec<(usize, String)> {
    let blocks = document.blocks();
    let outside = document
        .lines
        .iter()
        .enumerate()
        .filter(|(index, _)| !blocks.iter().any(|block| block.inner.contains(index)));
    outside
        .flat_map(|(index, line)| {
            line.split("](").skip(1).map(move |rest| (index + 1, rest.split(')').next().unwrap()))
        })
        .map(|(line, link)| (line, link.to_owned()))
        .collect()
}

/// Returns the anchors of a page's headings, as repository hosts and mdBook generate them.
fn anchors(file: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let anchor = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            anchor.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn tool_names_page_is_the_table() {
    let mut page = String::from(
        "# Tool names of other clients\n\n\
         Skills that were written for another client request permissions under that client's names \
         for its tools. In\n`allowed-tools`, these names request what the head of their column says; \
         arguments, as in `Shell(git)`, are not\nunderstood. A run that would be granted more because of \
         such a name needs [approval](../guide/approvals.md), whatever\nits level and whatever the policy \
         says: earlier levels and approvals were given without these names in mind. An\nembedding host \
         without a hook that approves runs grants nothing for these names. In a policy, write our names.\n\n\
         `skillhost check` and `run --explain` show such an entry as granted \"only with an approval\", and name the client.\n\
         A name that is neither ours nor in this table, but is within one edit of ours, such as `Raed`, is a warning of `check`\n\
         (`unknown-tool`).\n\n\
         | client | `Read` | `Write` | `Bash` | `WebFetch` | grants nothing |\n|---|---|---|---|---|---|\n",
    );
    for client in &client_tools::CLIENTS {
        let of = |wanted: &[Meaning]| {
            let named = client.tools.iter().filter(|(meaning, _)| wanted.contains(meaning));
            let names: Vec<_> =
                named.flat_map(|(_, names)| *names).map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let name = match client.source {
            "" => client.name.to_owned(),
            source => format!("[{}]({source})", client.name),
        };
        let columns = [
            name,
            of(&[Meaning::Read]),
            of(&[Meaning::Write]),
            of(&[Meaning::Bash]),
            of(&[Meaning::WebFetch]),
            of(&[Meaning::WebSearch, Meaning::OfClient]),
        ];
        page.push_str(&format!("| {} |\n", columns.join(" | ")));
    }
    let ambiguous = client_tools::AMBIGUOUS.map(|name| format!("`{name}`")).join(", ");
    page.push_str(&format!(
        "\nThese names grant nothing, because clients use them for different tools: {ambiguous}.\n"
    ));
    pinned(&repository("docs/reference/tool-names.md"), &page).unwrap();
}

#[test]
fn stable_api_is_what_the_library_exports() {
    let library = fs::read_to_string(repository("host/skillhost/src/lib.rs")).unwrap();
    let exports = library.split("pub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let last = |path: &str| path.trim().rsplit("::").next().unwrap().to_owned();
    let exported: BTreeSet<String> = exports
        .flat_map(|path| match path.split_once('{') {
            Some((_, names)) => names.trim_end_matches(['}', '\n']).split(',').map(last).collect(),
            None => vec![last(path)],
        })
        .map(|name| name.rsplit(" as ").next().unwrap().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let rows = Document::read("docs/guide/embedding.md").table("item");
    let listed: BTreeSet<String> =
        rows.iter().flat_map(|row| code(&row[0])).map(str::to_owned).collect();
    assert_eq!(listed, exported);
}

#[test]
fn policy_keys_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(&skillhost(&["schema", "policy"])).unwrap();
    let mut page = String::from(
        "# Policy keys\n\nEvery key of the [policy file](policy.md), generated from its JSON Schema, which \
         `skillhost schema policy` prints.\nTo check and complete the file in an editor, save the \
         schema as `policy.schema.json` next to it, and start the policy with\n\
         `# yaml-language-server: $schema=policy.schema.json`: a path that is relative to the file, or absolute. \
         The repository has the\nschema as `schemas/policy.schema.json`. `skills.*` stands for the name of a \
         skill, or a glob.\n\n| key | value | meaning |\n|---|---|---|\n",
    );
    keys(&schema, "", &mut page);
    pinned(&repository("docs/reference/policy-keys.md"), &page).unwrap();
}

#[test]
fn frontmatter_fields_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(&skillhost(&["schema", "frontmatter"])).unwrap();
    let mut page = String::from(
        "# Frontmatter\n\nEvery field of the frontmatter of SKILL.md that skillhost knows, generated from the JSON Schema \
         that `skillhost schema\nfrontmatter` prints. [Rules](rules.md) says what happens if a value is wrong, and \
         [permissions](permissions.md) describes the entries of\n`allowed-tools`. skillhost ignores other fields, \
         and `skillhost check` warns of them.\n\nAn editor that reads the frontmatter as YAML checks and completes it with this \
         comment, which is a path relative to the\nfile, or absolute: `# yaml-language-server: $schema=frontmatter.schema.json`, \
         in the line after the first `---`. The repository\nhas the schema as `schemas/frontmatter.schema.json`.\n\n\
         | field | value | meaning |\n|---|---|---|\n",
    );
    keys(&schema, "", &mut page);
    pinned(&repository("docs/reference/frontmatter.md"), &page).unwrap();
}

#[test]
fn committed_schemas_are_those_that_are_printed() {
    for name in ["frontmatter", "policy", "sources"] {
        let file = repository("").join(format!("schemas/{name}.schema.json"));
        pinned(&file, &skillhost(&["schema", name])).unwrap();
    }
}

/// Writes a row for each key below `node` that the schema describes.
fn keys(node: &Value, path: &str, page: &mut String) {
    let properties = node["properties"].as_object().into_iter().flatten();
    let any = node["additionalProperties"].as_object().map(|_| &node["additionalProperties"]);
    let star = String::from("*");
    for (name, below) in properties.chain(any.map(|below| (&star, below))) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if let Some(meaning) = below["description"].as_str() {
            writeln!(page, "| `{path}` | {} | {meaning} |", value_kind(below)).unwrap();
        }
        keys(below, &path, page);
        keys(&below["items"], &format!("{path}[]"), page);
    }
}

/// Describes the values of a key: one of some words, or a type.
fn value_kind(node: &Value) -> String {
    if let Some(words) = node["enum"].as_array() {
        let words: Vec<String> =
            words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect();
        return words.join(", ");
    }
    if let Some(forms) =
        node["oneOf"].as_array().filter(|forms| forms.iter().all(|f| f["type"].is_string()))
    {
        return forms.iter().map(value_kind).collect::<Vec<_>>().join(" or ");
    }
    match &node["type"] {
        Value::String(kind) if kind == "array" => format!("list: {}", value_kind(&node["items"])),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().map(|kind| kind.as_str().unwrap()).collect::<Vec<_>>().join(" or ")
        }
        _ if node["deprecated"] == true => "any".to_owned(),
        _ => "see the schema".to_owned(),
    }
}

fn skillhost(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_skillhost")).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_field_of_a_receipt_is_explained() {
    explained("receipt", "docs/reference/receipt.md");
}

#[test]
fn every_field_of_a_recording_is_explained() {
    explained("recording", "docs/reference/recording.md");
}

/// Asserts that a document has a row for each field of a schema, in its order.
fn explained(of: &str, document: &str) {
    fn fields(schema: &Value, node: &Value, path: &str, found: &mut Vec<String>) {
        let node = match node["$ref"]
            .as_str()
            .or_else(|| node["anyOf"].as_array()?.iter().find_map(|one| one["$ref"].as_str()))
        {
            Some(reference) => &schema["$defs"][reference.rsplit('/').next().unwrap()],
            None => node,
        };
        match (&node["properties"], &node["items"]) {
            (Value::Object(properties), _) => {
                for (name, below) in properties {
                    fields(
                        schema,
                        below,
                        &if path.is_empty() { name.clone() } else { format!("{path}.{name}") },
                        found,
                    );
                }
            }
            (_, Value::Object(_)) => fields(schema, &node["items"], &format!("{path}[]"), found),
            _ => found.push(path.to_owned()),
        }
    }
    let schema: Value = serde_json::from_str(&skillhost(&["schema", of])).unwrap();
    let mut found = Vec::new();
    fields(&schema, &schema, "", &mut found);
    let rows = Document::read(document).table("field");
    let documented: Vec<&str> = rows.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(documented, found);
    assert!(rows.iter().all(|row| row[1].len() > 5));
}
