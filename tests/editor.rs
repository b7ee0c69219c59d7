//! The JSON schemas in an editor: the YAML language server reads the comment that names one, and reports
//! what the schema forbids.

use std::fs;

use serde_json::Value;

use crate::cli::{User, repository, text};

/// What the language server reports about a file: lines and messages.
type Found = Vec<(u64, String)>;

/// Opens files in the language server.
fn diagnostics(user: &User, files: &[(&str, &str)]) -> Vec<Found> {
    let packages = repository("target").join("clients/editor");
    assert!(packages.exists(), "the language server is missing: run `cargo xtask clients` first");
    let mut node = user.command("node");
    // The machine determines which `node` this is.
    node.env("PATH", std::env::var_os("PATH").unwrap());
    node.arg(repository("tests/clients/editor/diagnostics.mjs")).arg(packages);
    for (name, content) in files {
        let file = user.work().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        node.arg(file);
    }
    let run = node.output().unwrap();
    let mut lines: Vec<Value> =
        text(&run.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), files.len(), "{run:?}");
    let position = |line: &Value| {
        files.iter().position(|(name, _)| line["file"].as_str().unwrap().ends_with(name))
    };
    lines.sort_by_key(position);
    let found = |line: &Value| {
        let found = line["found"].as_array().unwrap().iter();
        found
            .map(|one| (one["line"].as_u64().unwrap(), one["message"].as_str().unwrap().to_owned()))
            .collect()
    };
    lines.iter().map(found).collect()
}

#[test]
fn editors_check_the_files_by_the_schema_that_the_comment_names() {
    let user = User::new();
    for name in ["policy", "frontmatter"] {
        let schema = user.skillhost(&["schema", name]).stdout;
        fs::write(user.work().join(format!("{name}.schema.json")), schema).unwrap();
    }
    let relative = "# yaml-language-server: $schema=policy.schema.json\n";
    let schema = user.work().join("policy.schema.json");
    let absolute = format!("# yaml-language-server: $schema={}\n", schema.display());
    let complete = fs::read_to_string(repository("tests/cases/policy/complete.yaml")).unwrap();
    let found = diagnostics(
        &user,
        &[
            ("one.yaml", &format!("{relative}limits: {{ tiemout: 1s }}\n")),
            ("below/two.yaml", &format!("{absolute}default: {{ allow: [Read] }}\ncolour: red\n")),
            ("three.yaml", &format!("{relative}{complete}")),
            (
                "four.yaml",
                "# yaml-language-server: $schema=frontmatter.schema.json\nname: Not A Name\ndescription: d\n",
            ),
            (
                "five.yaml",
                "# yaml-language-server: $schema=frontmatter.schema.json\nname: a\ndescription: d\n",
            ),
        ],
    );
    let lines: Vec<Vec<u64>> =
        found.iter().map(|found| found.iter().map(|(line, _)| *line).collect()).collect();
    assert_eq!(lines, [vec![2], vec![3], vec![], vec![2], vec![]], "{found:#?}");
    assert!(found[0][0].1.contains("tiemout") && found[1][0].1.contains("colour"), "{found:#?}");
}
