//! The HTTP cache that a policy keeps: private to tenant, skill and workspace, within the quota of
//! the state, and not used by deterministic runs.

use std::path::{Path, PathBuf};

use skillhost::invoke::{RunRequest, Runner, Target};
use skillhost_ledger::state::StateStore;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{CacheUse, Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;

use crate::hostile_host::{HANG_TIMEOUT, shell_host};
use crate::servers::{Server, respond};

const KIB: u64 = 1 << 10;
const HOUR: u64 = 3_600_000;

struct Place {
    dir: tempfile::TempDir,
    host: Runner,
    server: Server,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(|_, stream| {
            respond(stream, "200 OK", "cache-control: max-age=600\r\n", &vec![b'x'; 2_000]);
        });
        let place = Place { host: shell_host(dir.path()), dir, server };
        for folder in ["a/reader", "b/reader", "one", "two"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        for folder in ["a/reader", "b/reader"] {
            let manifest = "---\nname: reader\ndescription: Reads. Use to test.\n---\n";
            std::fs::write(place.path(folder).join("SKILL.md"), manifest).unwrap();
        }
        place
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    /// Requests the page from a skill in a workspace, with more limits than those that keep a cache.
    fn fetch(
        &self,
        host: &Runner,
        skill: &str,
        workspace: &str,
        limits: &[(Limit, u64)],
    ) -> Outcome {
        self.with(
            host,
            skill,
            workspace,
            Overrides { limits: limits.to_vec(), ..Overrides::default() },
        )
    }

    fn with(&self, host: &Runner, skill: &str, workspace: &str, overrides: Overrides) -> Outcome {
        let kept =
            [(Limit::State, 64 * KIB), (Limit::HttpCache, 32 * KIB), (Limit::HttpCacheKeep, HOUR)];
        let limits = kept.into_iter().chain(overrides.limits).collect();
        let overrides = Overrides {
            workspace: Some((self.path(workspace).canonicalize().unwrap(), MountMode::Read)),
            allow: vec![format!("WebFetch({})", self.server.url())],
            limits,
            ..overrides
        };
        let command = format!("curl -s {}/page", self.server.url());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = self.path(skill);
        let outcome = runtime.block_on(async {
            let run = invoke(host, &folder, overrides, command);
            tokio::time::timeout(HANG_TIMEOUT, run).await
        });
        runtime.shutdown_background();
        outcome.unwrap()
    }

    fn states(&self) -> StateStore {
        StateStore::new(self.path("kept"))
    }
}

async fn invoke(host: &Runner, skill: &Path, overrides: Overrides, command: String) -> Outcome {
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let request = RunRequest {
        skill: skill.into(),
        policy: &policy,
        target: Target::Shell(command),
        args: Vec::new(),
        io: Io::default(),
    };
    host.invoke(request).await.unwrap().finished.outcome
}

/// Returns how the only request was answered.
fn cached(outcome: &Outcome) -> Option<CacheUse> {
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert_eq!(outcome.stdout.0.len(), 2_000);
    let [request] = &outcome.requests[..] else { panic!("{outcome:?}") };
    request.cached
}

const FRESH: Option<CacheUse> = Some(CacheUse::Fresh);

#[test]
fn kept_responses_are_private_to_skill_workspace_and_tenant() {
    let place = Place::new();
    let fetch = |host: &Runner, skill, workspace| cached(&place.fetch(host, skill, workspace, &[]));
    assert_eq!(fetch(&place.host, "a/reader", "one"), None);
    assert_eq!(fetch(&place.host, "a/reader", "one"), FRESH);
    assert_eq!(fetch(&place.host, "a/reader", "two"), None, "another workspace");
    assert_eq!(fetch(&place.host, "b/reader", "one"), None, "another skill of the same name");
    let tenant = place.host.for_tenant(place.path("tenant/state"), place.path("tenant/audit"));
    std::fs::create_dir_all(place.path("tenant")).unwrap();
    assert_eq!(fetch(&tenant, "a/reader", "one"), None, "another tenant");
    // Each of them has its own.
    for (host, skill, workspace) in [
        (&place.host, "a/reader", "one"),
        (&place.host, "a/reader", "two"),
        (&place.host, "b/reader", "one"),
        (&tenant, "a/reader", "one"),
    ] {
        assert_eq!(fetch(host, skill, workspace), FRESH, "{skill} {workspace}");
    }
    // A new folder at the same path is another workspace.
    std::fs::rename(place.path("one"), place.path("old")).unwrap();
    std::fs::create_dir(place.path("one")).unwrap();
    assert_eq!(fetch(&place.host, "a/reader", "one"), None);
    // Also if the file system gives it the inode of the old one.
    std::fs::remove_dir_all(place.path("one")).unwrap();
    std::fs::create_dir(place.path("one")).unwrap();
    assert_eq!(fetch(&place.host, "a/reader", "one"), None);
    assert_eq!(place.server.connections(), 6);
}

#[test]
fn responses_are_kept_only_if_the_policy_says_so() {
    let place = Place::new();
    let fetch =
        |limits: &[(Limit, u64)]| cached(&place.fetch(&place.host, "a/reader", "one", limits));
    for off in [Limit::HttpCacheKeep, Limit::HttpCache, Limit::State] {
        for _ in 0..2 {
            assert_eq!(fetch(&[(off, 0)]), None, "without {off}");
        }
    }
    assert_eq!(fetch(&[]), None);
    assert_eq!(fetch(&[]), FRESH);
    // A run that keeps nothing removes what was kept.
    assert_eq!(fetch(&[(Limit::HttpCacheKeep, 0)]), None);
    assert_eq!(fetch(&[]), None);
    // Wiping the state removes it too.
    let [kept] = &place.states().list().unwrap()[..] else { panic!("one state") };
    assert!(kept.bytes > 2_000 && kept.files == 0, "{kept:?}");
    assert!(place.states().wipe(kept).unwrap());
    assert_eq!(fetch(&[]), None);
}

#[test]
fn permission_is_checked_before_a_kept_response_is_used() {
    let place = Place::new();
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), None);
    let deny = vec!["WebFetch".to_owned()];
    let overrides = Overrides { deny, ..Overrides::default() };
    let outcome = place.with(&place.host, "a/reader", "one", overrides);
    assert!(matches!(outcome.status, Status::Exited { code: 1.. }), "{outcome:?}");
    assert!(outcome.stdout.0.is_empty() && outcome.denials.len() == 1, "{outcome:?}");
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), FRESH);
}

#[test]
fn kept_responses_count_as_state_and_yield_to_files() {
    let place = Place::new();
    let bytes = || place.states().list().unwrap()[0].bytes;
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), None);
    assert!((2_000..4_000).contains(&bytes()), "{}", bytes());
    // Too little room for it.
    let small = [(Limit::State, 1_000)];
    for _ in 0..2 {
        assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &small)), None);
        assert_eq!(bytes(), 0);
    }
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), None);
    // Files may use the whole quota.
    let overrides = Overrides {
        limits: vec![
            (Limit::State, 4_000),
            (Limit::HttpCache, 32 * KIB),
            (Limit::HttpCacheKeep, HOUR),
        ],
        ..Overrides::default()
    };
    let fill = "head -c 4000 /dev/zero > /state/full; ls -a /state /";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome =
        runtime.block_on(invoke(&place.host, &place.path("a/reader"), overrides, fill.into()));
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    assert!(!outcome.stdout.text().contains("http-cache"), "guests do not see it: {outcome:?}");
    assert_eq!(bytes(), 4_000);
}

#[test]
fn deterministic_runs_use_no_cache() {
    let place = Place::new();
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), None);
    let determinism = DeterminismRule { on: Some(true), ..DeterminismRule::default() };
    let overrides = Overrides { determinism, ..Overrides::default() };
    let outcome = place.with(&place.host, "a/reader", "one", overrides);
    assert!(matches!(outcome.status, Status::Exited { code: 1.. }), "{outcome:?}");
    assert!(outcome.stdout.0.is_empty(), "{outcome:?}");
    // It leaves the cache to others.
    assert_eq!(cached(&place.fetch(&place.host, "a/reader", "one", &[])), FRESH);
}
