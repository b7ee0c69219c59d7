//! A program that runs a skill: `cargo run --example embed -- HOME PROGRAMS SKILLS FILE.csv`.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::{Path, PathBuf};

use skillhost::outcome::{Denial, DenialKind};
use skillhost::policy::capabilities::MountMode;
use skillhost::{Host, Request};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // This program compiles components too, in processes of its own.
    skillhost::compile_if_asked();
    let [home, programs, skills, file] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "four arguments")?;

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
                rule: "this program runs csv-report alone".into(),
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
    let outcome = host.invoke(request).await?.finished.outcome;
    print!("{}", outcome.stdout.text());

    let refused = host.invoke(Request::of("calculator").args(["1 + 1"])).await?.finished.outcome;
    println!("calculator: {:?}", refused.status);
    host.close().await;
    Ok(())
}
