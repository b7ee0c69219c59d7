//! A program that runs a skill: `cargo run --example embed -- HOME PROGRAMS SKILLS FILE.csv`.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::{Path, PathBuf};

use skillhost::outcome::{Denial, DenialKind};
use skillhost::{Host, MountMode, Request};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Makes this program the compiler of components too, in child processes.
    skillhost::compile_if_asked();
    let [home, programs, skills, file] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "expected four arguments")?;

    let host = Host::builder()
        .home(home)
        .compiler(std::env::current_exe()?)
        .programs(programs)
        .skills(skills)
        // Decides about each run, on top of the policy.
        .approve(|asking| match asking.skill.name.as_str() {
            "csv-report" => Ok(()),
            other => Err(Denial {
                what: other.into(),
                rule: "this program runs only csv-report".into(),
                fix: None,
                kind: DenialKind::Run,
            }),
        })
        .on_record(|record| println!("recorded: {} {:?}", record.skill.name, record.status))
        .build()?;

    let file = PathBuf::from(file);
    let (folder, name) = (
        file.parent().unwrap_or(Path::new(".")),
        file.file_name().unwrap_or_default().to_string_lossy(),
    );
    let request = Request::of("csv-report")
        .script("scripts/csv_report.py")
        .args([name])
        .workspace(folder, MountMode::Write);
    let outcome = host.invoke(request).await?.outcome;
    print!("{}", outcome.stdout.text());

    let refused = host.invoke(Request::of("calculator").args(["1 + 1"])).await?.outcome;
    println!("calculator: {:?}", refused.status);
    host.close().await;
    Ok(())
}
