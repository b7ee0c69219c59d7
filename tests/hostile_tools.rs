//! Typed tools of untrusted components: schemas that take long to evaluate, results that need much
//! memory, and listings that do both.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::http::Resolver;
use skillhost_sandbox::{Io, Tool, with_listing};
use skillhost_skill::runtime::Component;

use crate::cli::{User, repository};
use crate::hostile_host::{Fixture, HANG_TIMEOUT, assert_hit};

/// A tool as a component lists it: name, input schema, output schema.
pub type ListedTool<'a> = (&'a str, &'a str, Option<&'a str>);

/// A component that lists tools, each of which returns its input.
pub fn toolbox(tools: &[ListedTool<'_>]) -> Vec<u8> {
    let template = std::fs::read_to_string(repository("tests/guests/echo.wat")).unwrap();
    let mut data = Vec::new();
    let mut records = Vec::new();
    let base = 64 << 10;
    let mut store = |text: &str| {
        let at = base + data.len() as u32;
        data.extend_from_slice(text.as_bytes());
        [at, text.len() as u32]
    };
    for (name, input, output) in tools {
        let mut words = [store(name), store("Returns its input."), store(input)].concat();
        match output {
            Some(output) => words.extend([&[1][..], &store(output)[..]].concat()),
            None => words.extend([0, 0, 0]),
        }
        records.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    data.resize(data.len().next_multiple_of(8), 0);
    let list = base + data.len() as u32;
    data.extend(records);
    let bytes = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "\\{byte:02x}").unwrap();
            text
        })
    };
    let end = (base as usize + data.len()).next_multiple_of(8);
    let head = [list, tools.len() as u32].map(u32::to_le_bytes).concat();
    let text = template
        .replace(
            "(memory (export \"memory\") 2)",
            &format!("(memory (export \"memory\") {})", (end >> 16) + 260),
        )
        .replace(
            "(data (i32.const 512) \"\\10\\02\\00\\00\\01\\00\\00\\00\")",
            &format!("(data (i32.const 512) \"{}\")", bytes(&head)),
        )
        .replace("(i32.const 4096)", &format!("(i32.const {end})"))
        .replace(
            "    (global $next",
            &format!("    (data (i32.const {base}) \"{}\")\n    (global $next", bytes(&data)),
        );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Calls the tool `t` on a thread; a timeout fails the test.
fn call(
    component: &[u8],
    input: &str,
    limits: &[(Limit, u64)],
    deterministic: bool,
    interrupt: Option<Duration>,
) -> Outcome {
    let fixture = Fixture::with(component, Resolver::System);
    let determinism = DeterminismRule {
        on: deterministic.then_some(true),
        seed: deterministic.then_some(1),
        start_time: None,
    };
    let overrides = Overrides { limits: limits.to_vec(), determinism, ..Overrides::default() };
    let policy = Policy::builtin()
        .with_command_line(overrides)
        .unwrap_or_else(|findings| panic!("{findings:?}"));
    let target = Target::Tool { name: "t".into(), input: input.into() };
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let interrupt = interrupt.map(|after| Box::pin(tokio::time::sleep(after)) as _);
            let io = Io { interrupt, ..Io::default() };
            let skill = fixture.path("skills/hostile");
            let request = RunRequest {
                skill: (&skill).into(),
                policy: &policy,
                target,
                args: Vec::new(),
                io,
            };
            fixture.host.invoke(request).await.map(|invoked| invoked.finished.outcome)
        });
        // Waits for the threads that are still evaluating a schema.
        drop(runtime);
        assert_eq!(fixture.audit().len(), 1, "the call is recorded");
        send.send(outcome.unwrap()).ok();
    });
    receive.recv_timeout(HANG_TIMEOUT).expect("the host answers")
}

fn failure(outcome: &Outcome) -> &str {
    assert_eq!(outcome.status, Status::Exited { code: 1 }, "{outcome:?}");
    outcome.error.as_deref().unwrap()
}

/// Nested definitions, each of which applies the next one this many times.
fn doubling(depth: usize, times: usize) -> String {
    let mut definitions = serde_json::Map::new();
    for at in 0..depth {
        definitions.insert(
            format!("d{at}"),
            json!({ "allOf": vec![json!({ "$ref": format!("#/$defs/d{}", at + 1) }); times] }),
        );
    }
    definitions.insert(format!("d{depth}"), json!(true));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions }).to_string()
}

#[test]
fn an_endless_schema_ends_at_the_timeout() {
    let component = toolbox(&[("t", &doubling(40, 2), None)]);
    let started = Instant::now();
    assert_hit(
        &call(&component, "{}", &[(Limit::Timeout, 300)], false, None),
        Limit::Timeout,
        "doubling",
    );
    let interrupted = call(&component, "{}", &[], false, Some(Duration::from_millis(100)));
    assert_eq!(interrupted.status, Status::Interrupted);
    let aborted = call(&component, "{}", &[(Limit::Timeout, 300)], true, None);
    assert!(matches!(aborted.status, Status::Aborted { .. }), "{aborted:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn long_reference_chains_do_not_crash_the_host() {
    let outcome = call(&toolbox(&[("t", &doubling(1_500, 1), None)]), "{}", &[], false, None);
    assert!(failure(&outcome).contains("nests deeper than"), "{outcome:?}");
    let outcome = call(&toolbox(&[("t", &doubling(60_000, 1), None)]), "{}", &[], false, None);
    assert!(failure(&outcome).contains("more than 65536"), "{outcome:?}");
    let backtracking = json!({ "pattern": r"^(a+)+\1$" }).to_string();
    let outcome = call(&toolbox(&[("t", &backtracking, None)]), "\"a\"", &[], false, None);
    assert!(failure(&outcome).contains("is not supported"), "{outcome:?}");
}

#[test]
fn an_output_must_match_its_schema() {
    let schema =
        json!({ "type": "object", "properties": { "count": { "type": "integer" } } }).to_string();
    let component = toolbox(&[("t", "true", Some(&schema))]);
    let right = call(&component, r#"{"count": 1}"#, &[], false, None);
    assert_eq!(
        (right.status, right.result),
        (Status::Exited { code: 0 }, Some(json!({ "count": 1 })))
    );
    let wrong = call(&component, r#"{"count": "1"}"#, &[], false, None);
    assert_eq!(
        failure(&wrong),
        "the output of `t` does not match its schema: at /count: the text `1` is not of type `integer`"
    );
    assert_eq!(wrong.result, None);
}

#[test]
fn a_large_value_is_judged_within_a_deterministic_run() {
    let schema = json!({ "items": { "type": "integer" } }).to_string();
    let component = toolbox(&[("t", &schema, Some(&schema))]);
    let input = json!(vec![7; 30_000]).to_string();
    let outcome = call(&component, &input, &[], true, None);
    assert_eq!(
        outcome.result.and_then(|result| result.as_array().map(Vec::len)),
        Some(30_000),
        "{:?}",
        outcome.status
    );
}

#[test]
fn a_result_counts_as_memory_and_as_output() {
    let component = toolbox(&[("t", "true", None)]);
    // 300 KB of text, and up to 46 MB as a value; the guest itself has 17 MiB.
    let input = json!(vec![[0]; 75_000]).to_string();
    let outcome = call(&component, &input, &[(Limit::Memory, 96 << 20)], false, None);
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert_hit(
        &call(&component, &input, &[(Limit::Memory, 40 << 20)], false, None),
        Limit::Memory,
        "result",
    );
    let outcome = call(&component, &input, &[(Limit::Stdout, input.len() as u64)], false, None);
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{:?}", outcome.status);
    assert_hit(
        &call(&component, &input, &[(Limit::Stdout, input.len() as u64 - 1)], false, None),
        Limit::Stdout,
        "result",
    );
}

#[test]
fn the_schemas_of_a_call_count_as_memory() {
    // 60 KB of text, and some 10 MB as a value; the guest itself has 17 MiB.
    let heavy = json!({ "enum": [{}, vec![json!([]); 20_000]] }).to_string();
    let limits = [(Limit::Memory, 22 << 20)];
    let outcome = call(&toolbox(&[("t", "true", None)]), "{}", &limits, false, None);
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert_hit(
        &call(&toolbox(&[("t", &heavy, None)]), "{}", &limits, false, None),
        Limit::Memory,
        "schema",
    );
}

#[test]
fn a_listing_that_breaks_the_interface_is_refused() {
    let long = "x".repeat(65);
    let names: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let many: Vec<ListedTool<'_>> =
        names.iter().map(|name| (name.as_str(), "true", None)).collect();
    let heavy = json!({ "description": "x".repeat(60_000) }).to_string();
    let total: Vec<ListedTool<'_>> =
        names.iter().take(10).map(|name| (name.as_str(), heavy.as_str(), None)).collect();
    for (tools, words) in [
        (&[("t", "true", None), ("a b", "true", None)][..], "is not a tool name"),
        (&[("t", "true", None), (&long, "true", None)], "is not a tool name"),
        (&[("t", "true", None), ("", "true", None)], "is not a tool name"),
        (&[("t", "true", None), ("\u{1b}[2J", "true", None)], "is not a tool name"),
        (&[("t", "true", None), ("t", "true", None)], "two tools `t`"),
        (&many, "200 tools"),
        (&total, "more than 524288 bytes"),
    ] {
        let component = toolbox(tools);
        let outcome = call(&component, "{}", &[], false, None);
        assert!(
            failure(&outcome).contains(words) && !failure(&outcome).contains('\u{1b}'),
            "{outcome:?}"
        );
        assert!(list(&component).unwrap_err().contains(words));
    }
    assert!(
        list(&toolbox(&[("t", r#"{"type": "text"}"#, None)]))
            .unwrap_err()
            .contains("input schema of `t`")
    );
    assert!(
        list(&toolbox(&[("t", "true", Some("{"))]))
            .unwrap_err()
            .contains("output schema of `t` is not valid JSON")
    );
    assert_eq!(list(&toolbox(&many[..128])).unwrap(), 128);
}

/// The number of tools that a component lists.
fn list(component: &[u8]) -> Result<usize, String> {
    let fixture = Fixture::with(component, Resolver::System);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tools = runtime.block_on(fixture.host.component_tools(&Component::new(component.to_vec())));
    tools.map(|tools| tools.len()).map_err(|status| skillhost_sandbox::say(&status))
}

#[test]
fn check_compares_the_tools_section_with_the_component() {
    let fixture = Fixture::new();
    let tool = |name: &str| Tool {
        name: name.into(),
        description: "Returns its input.".into(),
        input_schema: json!(true),
        output_schema: None,
    };
    for (listed, exit) in [("t", 0), ("other", 1)] {
        fixture.replace_component(
            &with_listing(&toolbox(&[("t", "true", None)]), &[tool(listed)]).unwrap(),
        );
        let check =
            User::new().skillhost(&["check", fixture.path("skills/hostile").to_str().unwrap()]);
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        assert_eq!(check.status.code(), Some(exit), "{text}");
        assert_eq!(text.contains("does not match the tools that it lists"), exit == 1, "{text}");
    }
}
