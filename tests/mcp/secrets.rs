//! The bearer token and the skills' secrets appear in nothing that a server writes for its
//! operator.

use std::io::Read as _;

use serde_json::json;

use super::http::Server;
use super::traces::Collector;
use super::{Place, TRUSTED};

/// Starts a server with the most detailed logging.
const TOKEN: &str = r#"tok"en\of-the'test/0123456789"#;
const VALUE: &str = "value \"of\" the\\policy's é";
const FROM_HOST: &str = "value-of-the-host";
const KEY: &str = "key-of-the-collector";

#[test]
fn secrets_are_in_no_log_metric_or_span() {
    let place = Place::new();
    place.write(
        "scribe/scripts/leak.sh",
        "#!/bin/bash\necho \"out $SET $PASSED\"; echo \"err $SET $PASSED\" >&2; exit 3\n",
    );
    let policy = place.user.work().join("policy.yaml");
    std::fs::write(
        &policy,
        format!(
            "{TRUSTED}default:\n  allow: [Read, Bash]\n  env: [{}, PASSED]\n",
            json!(format!("SET={VALUE}"))
        ),
    )
    .unwrap();
    let token = place.user.work().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    for form in [&[][..], &["--log-json"]] {
        let collector = Collector::new();
        let args = [
            "--listen",
            "127.0.0.1:0",
            "--log",
            "trace",
            "--token-file",
            token.to_str().unwrap(),
            "--policy",
            policy.to_str().unwrap(),
        ];
        let mut command = place.server("serve", &[&args, form].concat());
        collector
            .of(&mut command)
            .env("PASSED", FROM_HOST)
            .env("OTEL_EXPORTER_OTLP_HEADERS", format!("x-key={KEY}"));
        let mut server = Server::of(&mut command);
        let mut stderr = server.child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            drop(stderr.read_to_end(&mut log));
            String::from_utf8_lossy(&log).into_owned()
        });
        // The right token, a wrong one, none, and one in the wrong place.
        for (authorization, status) in [
            (format!("Bearer {TOKEN}"), 200),
            (format!("Bearer {TOKEN}x"), 401),
            (String::new(), 401),
        ] {
            assert_eq!(server.get("/metrics", &[("Authorization", &authorization)]).status, status);
        }
        server.token = TOKEN.to_owned();
        let session = server.session();
        server.ask(
            &session,
            "tools/call",
            json!({ "name": "activate_skill", "arguments": { "name": "scribe" } }),
        );
        let run = server.ask(
            &session,
            "tools/call",
            json!({ "name": "run_skill", "arguments": { "name": "scribe", "program": "scripts/leak.sh" } }),
        );
        assert_eq!(
            run["structuredContent"]["stdout"],
            format!("out {VALUE} {FROM_HOST}\n"),
            "the skill has them: {run}"
        );
        let metrics = server.get("/metrics", &[]).body;
        assert!(metrics.contains("skill=\"scribe\",status=\"exited\"} 1"), "{metrics}");
        let mut help = metrics.lines().filter(|line| line.starts_with("# HELP "));
        assert!(help.all(|line| line.ends_with('.') && !line.ends_with("..")), "{metrics}");
        server.stop();
        server.child.wait().unwrap();
        let log = log.join().unwrap();
        assert!(
            log.contains("TRACE") && log.contains("ran") && log.contains("[redacted]"),
            "{log}"
        );
        assert_eq!(collector.calls().len(), 2);
        for secret in [TOKEN, VALUE, FROM_HOST, KEY] {
            let quoted = format!("{secret:?}");
            let twice = format!("{quoted:?}");
            let once = &quoted[1..quoted.len() - 1];
            for form in [
                secret,
                once,
                &twice[3..twice.len() - 3],
                json!(secret).to_string().trim_matches('"'),
            ] {
                assert!(!metrics.contains(form) && !collector.has(form), "{form}");
                let line = log.lines().find(|line| line.contains(form));
                assert_eq!(line, None, "{form}");
            }
        }
        // A part that no escaping changes.
        for part in ["0123456789", "policy's"] {
            assert_eq!(log.lines().find(|line| line.contains(part)), None, "{part}");
        }
    }
}
