//! What `skillhost check FOLDER` costs on a folder of 1,000 skills: `cargo bench -p skillhost --bench check`.
#![allow(missing_docs, clippy::unwrap_used, clippy::disallowed_methods, reason = "a benchmark that cannot run says so by panicking")]

use std::fs;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use skillhost::compat::{self, Compatibility};
use skillhost::policy::{Policy, grant};
use skillhost::skill::{Skill, catalog};

const SKILLS: usize = 1_000;

/// A skill of the size that a script-bearing one has at the median: five files, 29 KB.
fn write_skill(folder: &Path, number: usize) {
    let name = format!("skill-{number}");
    let root = folder.join(&name);
    fs::create_dir_all(root.join("scripts")).unwrap();
    let block = "## Step\n\nDo it.\n\n```bash\npython3 scripts/main.py --input a.json | jq '.items[]' > out.json\ngit log -3\n```\n\n";
    let head = format!("---\nname: {name}\ndescription: One of many. Use when timing.\nallowed-tools: Read Bash(python3:*)\n---\n");
    fs::write(root.join("SKILL.md"), head + &block.repeat(20)).unwrap();
    let function = "def step(path, *, limit=10):\n    \"\"\"Does a step, as in import this.\"\"\"\n    data = json.loads(open(path).read())\n    \
                    result = subprocess.run([\"git\", \"log\", f\"-{limit}\"], capture_output=True)\n    return {**data, \"x\": result.stdout}\n\n\n";
    let imports = ["numpy", "requests", "yaml", "openai", "mystery"][number % 5];
    let main = format!(
        "#!/usr/bin/env python3\nimport argparse\nimport json\nimport subprocess\nimport {imports}\nfrom helpers import load\n\n\n"
    );
    fs::write(root.join("scripts/main.py"), main + &function.repeat(40)).unwrap();
    fs::write(root.join("scripts/helpers.py"), format!("import csv\n\n\ndef load(): ...\n\n\n{}", function.repeat(10))).unwrap();
    let shell = "for f in \"$@\"; do\n  if grep -q x \"$f\"; then sed -e 's/a/b/' \"$f\" | sort -u > \"$(basename \"$f\")\"; fi\ndone\n";
    fs::write(root.join("scripts/run.sh"), format!("#!/bin/bash\nset -euo pipefail\n{}", shell.repeat(20))).unwrap();
    fs::write(root.join("README.md"), "Text.\n".repeat(500)).unwrap();
}

fn check(folder: &Path, policy: &Policy) -> Vec<Compatibility> {
    let load = |path: &std::path::PathBuf| Skill::load(path, &Default::default()).unwrap();
    let judge = |skill: Skill| compat::check(&skill, &grant(&skill.asks(), policy).capabilities);
    catalog::find(folder).unwrap().iter().map(load).map(judge).collect()
}

fn catalog_of_skills(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    (0..SKILLS).for_each(|number| write_skill(folder.path(), number));
    let policy = Policy::builtin();
    assert_eq!(check(folder.path(), &policy).len(), SKILLS);
    let mut group = c.benchmark_group("check");
    group.sample_size(10);
    group.bench_function("a folder of 1,000 skills", |b| b.iter(|| check(folder.path(), &policy)));
    group.finish();
}

criterion_group!(benches, catalog_of_skills);
criterion_main!(benches);
