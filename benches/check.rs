//! Measures `skillhost check FOLDER` on a folder of 1,000 skills:
//! `cargo bench -p skillhost-bench --bench check`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark panics if it cannot run"
)]

use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use skillhost_compat::{self as compat, Compatibility};
use skillhost_policy::{Policy, grant};
use skillhost_skill::{Skill, scan};

#[path = "check/corpus.rs"]
mod corpus;

const SKILLS: usize = 1_000;

fn folder_of_skills(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = corpus::write(folder.path(), SKILLS);
    let policy = Policy::builtin();
    let load = |path: &std::path::PathBuf| Skill::load(path, &Default::default()).unwrap();
    let check_skill = |skill: Skill| {
        compat::check(&skill, &grant(&skill.policy_manifest(), &policy).capabilities)
    };
    let check = || -> Vec<Compatibility> {
        scan::find_skills(folder.path()).unwrap().iter().map(load).map(check_skill).collect()
    };
    assert_eq!(check().len(), SKILLS);
    let mut group = c.benchmark_group("check");
    group.sample_size(10).throughput(criterion::Throughput::Bytes(bytes));
    group.bench_function("a folder of 1,000 skills, in one thread", |b| b.iter(check));
    let skillhost = skillhost_bench::skillhost();
    group.bench_function("a folder of 1,000 skills, as a command", |b| {
        b.iter(|| {
            let mut command = Command::new(&skillhost);
            let status =
                command.arg("check").arg(folder.path()).stdout(Stdio::null()).status().unwrap();
            assert!(status.success());
        });
    });
    group.finish();
}

criterion_group!(benches, folder_of_skills);
criterion_main!(benches);
