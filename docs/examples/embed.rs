//! A program that runs skills: `cargo run --example embed -- HOME PROGRAMS FILE.csv SKILLS...`.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::path::{Path, PathBuf};

use skillhost::outcome::{Denial, DenialKind};
use skillhost::{
    EmbeddedSkill, Host, HostCall, HostOutput, MountMode, Request, include_skill, load_policy,
};

/// What skills may do. Without the last entry, no skill could start the host program.
const POLICY: &str = "default: { allow: [Read, Write, Bash, 'Bash(lookup-customer:*)'] }";

/// A skill that is a part of this program.
static CUSTOMER_NOTE: EmbeddedSkill = include_skill!("../../docs/examples/skills/customer-note");

/// A host program: `lookup-customer NUMBER` prints a name.
async fn lookup_customer(call: HostCall) -> HostOutput {
    match call.argv.get(1).map(String::as_str) {
        Some("7") => HostOutput::success("Ada Lovelace\n"),
        Some(other) => HostOutput::failure(1, format!("no customer {other}\n")),
        None => HostOutput::failure(2, "usage: lookup-customer NUMBER\n"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Makes this program the compiler of components too, in child processes.
    skillhost::compile_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [home, programs, file, skills @ ..] = &args[..] else {
        return Err("expected at least three arguments".into());
    };

    let builder = skills.iter().fold(Host::builder(), |builder, skills| builder.skills(skills));
    let host = builder
        .home(home)
        .compiler(std::env::current_exe()?)
        .programs(programs)
        .policy(load_policy(Path::new("policy.yaml"), POLICY, None)?)
        .host_program("lookup-customer", lookup_customer)
        .embedded_skill(CUSTOMER_NOTE)
        // Decides about each run, on top of the policy.
        .approve(|asking| match asking.skill.name.as_str() {
            "csv-report" | "customer-note" => Ok(()),
            other => Err(Denial {
                what: other.into(),
                rule: "this program runs only csv-report and customer-note".into(),
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

    let request = Request::of("customer-note").script("scripts/note.py").args(["7"]);
    let outcome = host.invoke(request).await?.outcome;
    print!("{}", outcome.stdout.text());
    println!("started: {:?}", outcome.host_programs);

    let refused = host.invoke(Request::of("calculator").args(["1 + 1"])).await?.outcome;
    println!("calculator: {:?}", refused.status);
    host.close().await;
    Ok(())
}
