//! The commands: one file each, named after the command.

pub(crate) mod add;
pub(crate) mod agent;
pub(crate) mod approve;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod cache;
pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod ci;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod hook;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod mount;
pub(crate) mod new;
pub(crate) mod pack;
pub(crate) mod pending;
pub(crate) mod permissions;
pub(crate) mod prompt;
pub(crate) mod publish;
pub(crate) mod remove;
pub(crate) mod replay;
pub(crate) mod result;
pub(crate) mod run;
pub(crate) mod runtimes;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod sign;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod submit;
pub(crate) mod sync;
pub(crate) mod tenants;
pub(crate) mod test;
pub(crate) mod trust;
pub(crate) mod update;
pub(crate) mod verify;
pub(crate) mod why;
pub(crate) mod worker;

use clap::Subcommand;

use crate::error::{CliError, Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Shell(shell::Args),
    Check(check::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Search(search::Args),
    Show(show::Args),
    Add(add::Args),
    Remove(remove::Args),
    Sync(sync::Args),
    Update(update::Args),
    Why(why::Args),
    Ci(ci::Args),
    New(new::Args),
    Build(build::Args),
    Test(test::Args),
    Inspect(inspect::Args),
    Bench(bench::Args),
    Pack(pack::Args),
    Sign(sign::Args),
    Publish(publish::Args),
    Agent(agent::Args),
    Connect(connect::Args),
    Mount(mount::Args),
    Hook(hook::Args),
    Mcp(mcp::Args),
    Serve(serve::Args),
    Submit(submit::Args),
    Status(status::Args),
    Result(result::Args),
    Logs(logs::Args),
    Cancel(cancel::Args),
    Tenants(tenants::Args),
    Worker(worker::Args),
    Fleet(fleet::Args),
    Prompt(prompt::Args),
    Verify(verify::Args),
    Replay(replay::Args),
    Diff(diff::Args),
    Audit(audit::Args),
    Key(key::Args),
    Approve(approve::Args),
    Pending(pending::Args),
    Permissions(permissions::Args),
    Trust(trust::Args),
    #[command(alias = "programs")]
    Runtimes(runtimes::Args),
    Cache(cache::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Settings(settings::Args),
    State(state::Args),
    Stats(stats::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The commands as the main help groups them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Run skills", &["run", "shell", "list", "search", "show"]),
    ("Fetch skills", &["add", "remove", "sync", "update", "why", "ci"]),
    (
        "Write skills",
        &["new", "build", "check", "test", "inspect", "bench", "pack", "sign", "publish"],
    ),
    ("Connect agents", &["agent", "connect", "hook", "mount", "mcp", "serve", "prompt"]),
    (
        "Run on a server",
        &["submit", "status", "result", "logs", "cancel", "tenants", "worker", "fleet"],
    ),
    ("Keep evidence", &["audit", "verify", "replay", "diff", "key"]),
    (
        "Operate",
        &[
            "pending",
            "approve",
            "permissions",
            "trust",
            "config",
            "settings",
            "state",
            "stats",
            "doctor",
            "runtimes",
            "cache",
            "schema",
            "completions",
            "man",
        ],
    ),
];

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => run::main(args),
        Command::Shell(args) => shell::main(args),
        Command::Check(args) => check::main(&args),
        Command::List(args) => list::main(&args),
        Command::Search(args) => search::main(&args),
        Command::Show(args) => show::main(&args),
        Command::Add(args) => add::main(&args),
        Command::Remove(args) => remove::main(&args),
        Command::Sync(args) => sync::main(&args),
        Command::Update(args) => update::main(&args),
        Command::Why(args) => why::main(&args),
        Command::Ci(args) => ci::main(&args),
        Command::New(args) => new::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Inspect(args) => inspect::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Pack(args) => pack::main(&args),
        Command::Sign(args) => sign::main(&args),
        Command::Publish(args) => publish::main(&args),
        Command::Agent(args) => agent::main(&args),
        Command::Connect(args) => connect::main(&args),
        Command::Mount(args) => mount::main(&args),
        Command::Hook(args) => hook::main(&args),
        Command::Mcp(args) => mcp::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Submit(args) => submit::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Result(args) => result::main(&args),
        Command::Logs(args) => logs::main(&args),
        Command::Cancel(args) => cancel::main(&args),
        Command::Tenants(args) => tenants::main(&args),
        Command::Worker(args) => worker::main(&args),
        Command::Fleet(args) => fleet::main(&args),
        Command::Prompt(args) => prompt::main(&args),
        Command::Verify(args) => verify::main(args),
        Command::Replay(args) => replay::main(args),
        Command::Diff(args) => diff::main(&args),
        Command::Audit(args) => audit::main(args),
        Command::Key(args) => key::main(&args),
        Command::Approve(args) => approve::main(&args),
        Command::Pending(args) => pending::main(&args),
        Command::Permissions(args) => permissions::main(&args),
        Command::Trust(args) => trust::main(&args),
        Command::Runtimes(args) => runtimes::main(&args),
        Command::Cache(args) => cache::main(args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Config(args) => config::main(&args),
        Command::Settings(args) => settings::main(&args),
        Command::State(args) => state::main(args),
        Command::Stats(args) => stats::main(&args),
        Command::Schema(args) => schema::main(args),
        Command::Completions(args) => completions::main(&args),
        Command::Man(args) => man::main(&args),
    }
}
