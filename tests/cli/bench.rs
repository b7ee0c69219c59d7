//! `skillhost bench`: its measurements, its refusals and its output.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::{User, text};

fn measured(user: &User, args: &[&str]) -> Value {
    let run = user.skillhost(args);
    assert!(run.status.success(), "{args:?}: {run:?}");
    serde_json::from_slice(&run.stdout).unwrap()
}

#[test]
fn bench_measures_and_records_every_run() {
    let user = User::new();
    let found = measured(&user, &["bench", "./hello", "--rounds", "4", "--json"]);
    for figure in ["cold", "warm"] {
        let at = |percentile: &str| found[figure][percentile].as_f64().unwrap();
        assert!(
            0.0 < at("p50_ms") && at("p50_ms") <= at("p90_ms") && at("p90_ms") <= at("p99_ms"),
            "{found:#}"
        );
    }
    assert!(
        found["throughput"]
            .as_array()
            .unwrap()
            .iter()
            .all(|point| point["per_second"].as_f64().unwrap() > 0.0)
    );
    assert!(found["fuel"].as_u64().unwrap() > 0 && found["native"].is_null(), "{found:#}");
    let records = user.records();
    // One warm-up per mode, 4 rounds of both, and 4 for the throughput of one at a time; fuel.
    assert!(records.len() > 2 + 8 + 4, "{}", records.len());
    assert!(
        records
            .iter()
            .all(|record| record["skill"]["name"] == "hello" && record["status"]["code"] == 0)
    );
    assert_eq!(user.scratch(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn bench_prints_a_table_without_output_of_the_skill() {
    let user = User::new();
    let run = user.skillhost(&["bench", "./hello", "--rounds", "2"]);
    let out = text(&run.stdout);
    for part in [
        "hello: 2 rounds, interleaved",
        "cold (new process)",
        "warm (one host)",
        "per second, 1 at once",
        "of linear memory",
        "fuel ",
    ] {
        assert!(out.contains(part), "{part}: {run:?}");
    }
    // Progress bars appear only on terminals.
    assert!(run.status.success() && run.stderr.is_empty() && !out.contains("native"), "{run:?}");
}

#[test]
fn bench_passes_input_and_arguments() {
    let user = User::new();
    let tool = measured(
        &user,
        &["bench", "./echo", "echo", "--input", r#"{"text": "x"}"#, "--rounds=2", "--json"],
    );
    assert_eq!(tool["skill"], "echo");
    let command = measured(
        &user,
        &["bench", "./hello", "--rounds", "2", "--json", "--", "--native", "--rounds"],
    );
    assert_eq!(command["argv"], serde_json::json!(["hello", "--native", "--rounds"]));
}

#[test]
fn bench_refuses_failing_runs() {
    let user = User::new();
    for (skill, code) in [("./code3", 3), ("./trap", 134), ("./missing", 65), ("code3", 64)] {
        let run = user.skillhost(&["bench", skill, "--rounds", "2"]);
        assert_eq!(run.status.code(), Some(code), "{skill}: {run:?}");
        assert!(run.stdout.is_empty(), "{skill}: {run:?}");
    }
    let limit = user.skillhost(&["bench", "./spin", "--timeout", "50ms"]);
    assert_eq!(limit.status.code(), Some(124), "{limit:?}");
}

#[test]
fn native_runs_are_announced_and_need_a_script() {
    let user = User::new();
    let programs = user.stand_ins();
    let run = |args: &[&str]| {
        user.command(env!("CARGO_BIN_EXE_skillhost"))
            .env("SKILLHOST_PROGRAMS", &programs)
            .args(args)
            .output()
            .unwrap()
    };
    let script = user.work().join("marked");
    std::fs::create_dir_all(script.join("scripts")).unwrap();
    std::fs::write(
        script.join("SKILL.md"),
        "---\nname: marked\ndescription: Leaves a mark. Use to test.\n---\n",
    )
    .unwrap();
    // In the sandbox a stand-in prints its argv instead; only the machine's own shell creates the
    // file.
    std::fs::write(script.join("scripts/mark.sh"), "echo \"$1\" > mark\n").unwrap();
    let without = run(&["bench", "./marked", "mark.sh", "--rounds", "2", "--", "x"]);
    assert!(without.status.success() && without.stderr.is_empty(), "{without:?}");
    assert!(!script.join("mark").exists());
    let with =
        run(&["bench", "./marked", "mark.sh", "--rounds", "2", "--native", "--json", "--", "x"]);
    assert!(
        text(&with.stderr).contains("outside the sandbox, with all your permissions"),
        "{with:?}"
    );
    let found: Value = serde_json::from_slice(&with.stdout).unwrap();
    assert!(found["native"]["p50_ms"].as_f64().unwrap() > 0.0, "{found:#}");
    assert_eq!(std::fs::read_to_string(script.join("mark")).unwrap(), "x\n");
    let component = user.skillhost(&["bench", "./hello", "--native"]);
    assert_eq!(component.status.code(), Some(64), "{component:?}");
}

#[test]
fn native_runs_use_the_program_behind_a_shim() {
    let user = User::new();
    let shims = user.root().join("shims");
    std::fs::create_dir(&shims).unwrap();
    let shim = shims.join("bash");
    std::fs::write(&shim, "#!/bin/sh\nPATH=/usr/bin:/bin exec bash \"$@\"\n").unwrap();
    std::fs::set_permissions(&shim, PermissionsExt::from_mode(0o755)).unwrap();
    let script = user.work().join("shimmed");
    std::fs::create_dir_all(script.join("scripts")).unwrap();
    std::fs::write(
        script.join("SKILL.md"),
        "---\nname: shimmed\ndescription: Ends at once. Use to test.\n---\n",
    )
    .unwrap();
    std::fs::write(script.join("scripts/end.sh"), "exit 0\n").unwrap();
    let run = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .env("SKILLHOST_PROGRAMS", user.stand_ins())
        .env("PATH", format!("{}:/usr/bin:/bin", shims.display()))
        .args(["bench", "./shimmed", "end.sh", "--rounds", "2", "--native", "--json"])
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&run.stdout).unwrap();
    let program = &found["native_program"];
    assert!(["/usr/bin/bash", "/bin/bash"].contains(&program["path"].as_str().unwrap()), "{found}");
    assert!(program["version"].as_str().unwrap().starts_with("bash 5."), "{found}");
}
