//! The columns by which the database finds records.

use std::collections::BTreeSet;

use super::log_entry::{EntryProgram, EntryRequest, EntrySession, EntryUser, LogEntry};

/// The indexed values of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// Nanoseconds since 1970.
    pub(super) time: i64,
    pub(super) skill: String,
    pub(super) status: String,
    /// Programs that ran, hosts of requests, users and sessions, each with its kind.
    pub(super) names: BTreeSet<(&'static str, String)>,
    /// The run that this record starts or ends.
    pub(super) run: Option<RunEvent>,
}

/// A start or end of a run, by its id.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RunEvent {
    Start(String),
    End(String),
}

/// The status of a start record.
pub(super) const STARTED: &str = "started";

/// A program that ran: the first one, its script, or a program that was started.
pub(super) const PROGRAM: &str = "program";
/// The host of an HTTP request, including refused ones.
pub(super) const HOST: &str = "host";
/// The user whose process was the host, by name and by number.
pub(super) const USER: &str = "user";
/// The session that requested the run, by id and by the client's name.
pub(super) const SESSION: &str = "session";

impl Columns {
    /// Returns the columns of a line. A line that cannot be parsed has empty ones, and is kept.
    pub(super) fn of(line: &[u8]) -> Columns {
        let Ok(line) = serde_json::from_slice::<LogEntry>(line) else { return Columns::default() };
        let time = line
            .time
            .parse::<jiff::Timestamp>()
            .ok()
            .and_then(|time| i64::try_from(time.as_nanosecond()).ok());
        let program = line.program.into_iter().flat_map(|EntryProgram { name, script, .. }| {
            [Some(name), script.map(|script| script.path)]
        });
        let programs = program.flatten().chain(
            line.processes.into_iter().filter_map(|process| process.program.or(process.argv0)),
        );
        let hosts = line.requests.into_iter().filter_map(|EntryRequest { host, url }| {
            host.or_else(|| Some(url?.parse::<http::Uri>().ok()?.host()?.to_ascii_lowercase()))
        });
        let users = line
            .user
            .into_iter()
            .flat_map(|EntryUser { uid, name }| [Some(uid.to_string()), name])
            .flatten();
        let sessions =
            line.session.into_iter().flat_map(|EntrySession { id, client }| [id, client]).flatten();
        let names = programs
            .map(|name| (PROGRAM, name))
            .chain(hosts.map(|host| (HOST, host)))
            .chain(users.map(|user| (USER, user)))
            .chain(sessions.map(|session| (SESSION, session)));
        let status = if line.pruned.is_some() { "pruned".into() } else { line.status.kind };
        let run = line.run.map(if status == STARTED { RunEvent::Start } else { RunEvent::End });
        Columns {
            time: time.unwrap_or(0),
            skill: line.skill.name,
            status,
            names: names.collect(),
            run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_indexed_by_programs_hosts_and_origin() {
        let line = br#"{"time":"1970-01-01T00:00:01.5Z","skill":{"name":"s","digest":null},"status":{"kind":"exited","code":0},
            "user":{"uid":1000,"name":"anna"},"session":{"id":"agent 7","client":"editor"},
            "program":{"name":"python3","script":{"path":"scripts/a.py"},"component":"x"},
            "requests":[{"url":"https://API.example.com:8443/x"},{"url":"no url"},{"host":"api.example.com","path":"hmac-sha256:x"}],
            "processes":[{"argv0":"jq"},{"program":"jq","argv":"hmac-sha256:x"}]}"#;
        let names = [
            (HOST, "api.example.com"),
            (PROGRAM, "jq"),
            (PROGRAM, "python3"),
            (PROGRAM, "scripts/a.py"),
            (USER, "1000"),
            (USER, "anna"),
            (SESSION, "agent 7"),
            (SESSION, "editor"),
        ];
        let names = names.map(|(kind, name)| (kind, name.to_owned())).into();
        assert_eq!(
            Columns::of(line),
            Columns {
                time: 1_500_000_000,
                skill: "s".into(),
                status: "exited".into(),
                names,
                run: None
            }
        );
        assert_eq!(Columns::of(b"{"), Columns::default());
        assert_eq!(
            Columns::of(br#"{"run":"1","status":{"kind":"started"}}"#).run,
            Some(RunEvent::Start("1".into()))
        );
        assert_eq!(
            Columns::of(br#"{"run":"1","status":{"kind":"exited","code":0}}"#).run,
            Some(RunEvent::End("1".into()))
        );
        assert_eq!(Columns::of(br#"{"pruned":{"sequence":7,"digest":"x"}}"#).status, "pruned");
    }
}
