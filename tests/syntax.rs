//! Scripts are parsed by the runtimes that would run them, and do not run.

use std::path::Path;

use skillhost_skill::Skill;

use crate::hostile_host::shell_host;

const MANIFEST: &str = "---\nname: parsed\ndescription: Is parsed. Use to test.\n---\n";

/// Returns the syntax errors of a skill with these scripts, each as `PATH:LINE:COLUMN MESSAGE`.
fn errors(home: &Path, scripts: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("SKILL.md"), MANIFEST).unwrap();
    for (path, text) in scripts {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let skill = Skill::load(folder.path(), &Default::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(shell_host(home).syntax_errors(&skill));
    runtime.shutdown_background();
    found
        .into_iter()
        .map(|error| format!("{}:{}:{} {}", error.path, error.line, error.column, error.message))
        .collect()
}

#[test]
fn scripts_that_do_not_parse_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let scripts = [
        ("scripts/open.sh", "if true; then\n  echo open\n"),
        ("scripts/quote", "#!/bin/bash\necho \"open\n"),
        ("scripts/sum.py", "import os\ndef total(:\n    pass\n"),
        ("scripts/nul.py", "print(1)\0\n"),
        ("scripts/fine.sh", "echo fine\n"),
        ("scripts/fine.py", "print('fine')\n"),
        ("scripts/latin.py", "# -*- coding: latin-1 -*-\nprint('fine')\n"),
    ];
    let expected = [
        "scripts/nul.py:0:0 source code string cannot contain null bytes",
        "scripts/open.sh:3:0 syntax error: unexpected end of file",
        "scripts/quote:2:0 unexpected EOF while looking for matching `\"'",
        "scripts/sum.py:2:11 invalid syntax",
    ];
    assert_eq!(errors(home.path(), &scripts), expected);
    assert_eq!(errors(home.path(), &scripts), expected, "the results in the cache");
}

#[test]
fn javascript_and_typescript_that_do_not_parse_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let deep = "(".repeat(50_000) + "1" + &")".repeat(50_000);
    let scripts = [
        ("scripts/deep.ts", deep.as_str()),
        ("scripts/element.jsx", "const a = 1;\nconst b = <p>text</p>;\n"),
        ("scripts/element.tsx", "export default (a: number) => <p>{a}</p>;\n"),
        ("scripts/fine.jsx", "export default 1 < 2;\n"),
        ("scripts/fine.tsx", "const f = <T,>(x: T) => x; f(1 as number);\n"),
        ("scripts/open.js", "const x = {\n  a: 1,\n"),
        ("scripts/value.mjs", "import fs from 'fs';\nconst x = ;\n"),
        ("scripts/types.ts", "const x: number = ;\n"),
        ("scripts/module.cjs", "import fs from 'fs';\n"),
        ("scripts/fine.js", "import fs from 'fs';\nawait 1;\nexport {};\n"),
        ("scripts/fine.cjs", "const fs = require('fs'); if (fs) return;\n"),
        (
            "scripts/fine.mts",
            "interface A { b: string }\nlet a!: A; export const c = a as unknown;\n",
        ),
        ("scripts/fine.cts", "enum A { B = 1 }\nconst x: A = A.B; module.exports = x;\n"),
        ("scripts/run.js", "console.log('runs'); process.exit(3);\n"),
    ];
    let found = errors(home.path(), &scripts);
    let place = |error: &String| error.split(':').take(2).collect::<Vec<_>>().join(":");
    let places: Vec<String> = found.iter().map(place).collect();
    assert_eq!(
        places,
        [
            "scripts/deep.ts:1",
            "scripts/element.jsx:2",
            "scripts/element.tsx:1",
            "scripts/module.cjs:1",
            "scripts/open.js:3",
            "scripts/types.ts:1",
            "scripts/value.mjs:2"
        ],
        "{found:?}"
    );
    assert!(found[0].contains("Nested too deeply"), "{found:?}");
    assert!(found[1..3].iter().all(|error| error.contains("JSX is not supported")), "{found:?}");
    assert_eq!(errors(home.path(), &scripts), found, "the results in the cache");
}

#[test]
fn scripts_are_parsed_and_do_not_run() {
    let home = tempfile::tempdir().unwrap();
    let scripts = [
        ("scripts/a.sh", "echo 1; exit 3\n"),
        ("scripts/b.py", "print(1, 'text', sep='\\n')\nraise SystemExit(3)\n"),
    ];
    assert_eq!(errors(home.path(), &scripts), [""; 0]);
}

#[test]
fn deeply_nested_script_does_not_hide_other_errors() {
    let home = tempfile::tempdir().unwrap();
    let deep = format!("x = {}1{}\n", "(".repeat(120_000), ")".repeat(120_000));
    let scripts = [("scripts/deep.py", deep.as_str()), ("scripts/b.py", "x = = 1\n")];
    let found = errors(home.path(), &scripts);
    assert!(found.contains(&"scripts/b.py:1:5 invalid syntax".to_owned()), "{found:?}");
}
