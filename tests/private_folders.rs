//! The host's own folders are inaccessible to other users, and are removed after their owner was
//! killed.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::hostile_host::HANG_TIMEOUT;
use crate::receipt::Place;

/// A user whose runs have not swept yet: the time of the last sweep is in the cache folder, which
/// is new here.
struct UnsweptHost {
    place: Place,
    cache: PathBuf,
}

impl UnsweptHost {
    fn new() -> UnsweptHost {
        let place = Place::new();
        let cache = place.user.root().join("cache");
        std::fs::create_dir_all(cache.join("skillhost")).unwrap();
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components");
        std::fs::create_dir_all(&shared).unwrap();
        symlink(shared, cache.join("skillhost/components")).unwrap();
        std::fs::write(place.path("p.yaml"), "default: { allow: [Bash, Read, Write] }\n").unwrap();
        UnsweptHost { place, cache }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("XDG_CACHE_HOME", &self.cache);
        command
    }

    /// A run that has written to its scratch folder and its overlay, and waits.
    fn waiting(&self) -> Child {
        let text = "echo secret > /tmp/f; echo secret > /workspace/f; echo ready; sleep 100";
        let run = self.command(&[
            "run",
            "./sk",
            "--policy",
            "p.yaml",
            "--workspace",
            "w:overlay",
            "--command",
            text,
        ]);
        // The shell runs skillhost with a umask that removes no permissions.
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 0; exec \"$@\"", "sh"])
            .arg(run.get_program())
            .args(run.get_args());
        command
            .env_clear()
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(self.place.path(""));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    fn scratch(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.place.user.root().join("tmp")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn scratch_is_private_whatever_the_umask() {
    let host = UnsweptHost::new();
    let run = host.waiting();
    let scratch = host.scratch();
    assert_eq!(scratch.len(), 1, "{scratch:?}");
    for folder in [&scratch[0], &scratch[0].join("tmp"), &scratch[0].join("upper0")] {
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700, "{}", folder.display());
    }
    for own in [".local/state/skillhost", ".local/state"] {
        assert_eq!(
            host.place.user.home().join(own).metadata().unwrap().mode() & 0o777,
            0o700,
            "{own}"
        );
    }
    kill(run);
}

#[test]
fn runs_remove_folders_of_killed_runs_but_not_of_live_ones() {
    let host = UnsweptHost::new();
    kill(host.waiting());
    let remaining = host.scratch();
    assert_eq!(remaining.len(), 1, "{remaining:?}");
    let live = host.waiting();
    let run = host.place.finish(host.command(&["run", "./hello"]), "");
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let now = host.scratch();
    assert!(now.len() == 1 && now != remaining, "{remaining:?} {now:?}");
    kill(live);
}

#[test]
fn a_server_sweeps_when_it_starts() {
    let host = UnsweptHost::new();
    kill(host.waiting());
    for verb in [&["mcp"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        if host.scratch().is_empty() {
            std::fs::create_dir(
                host.place.user.root().join("tmp/skillhost-session-0123456789abcdef"),
            )
            .unwrap();
            let closed = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&host.scratch()[0], closed).unwrap();
        }
        let server = host
            .command(verb)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while !host.scratch().is_empty() {
            assert!(started.elapsed() < HANG_TIMEOUT, "{verb:?} left {:?}", host.scratch());
            std::thread::sleep(Duration::from_millis(5));
        }
        kill(server);
    }
}
