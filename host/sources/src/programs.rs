//! The only native programs that are started while something is fetched or published: `ssh`, and the
//! helpers `git-credential-*` and `docker-credential-*` that the operator's configuration names.
//!
//! They are looked for in system folders, and started without a shell, with a minimal environment.
//! Nothing that is fetched names a program.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode};

use crate::error::SourceError;
use crate::network::Connection;
use crate::source::SshPlace;

/// The folders that are searched, in this order. Git keeps its helpers in its own folders.
const FOLDERS: [&str; 7] = [
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
    "/usr/local/libexec/git-core",
    "/usr/libexec/git-core",
    "/usr/local/lib/git-core",
    "/usr/lib/git-core",
];

/// What programs find in `PATH`: helpers start others, such as `gpg`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables that are passed on, because a program needs them to find the operator's agent, key
/// ring or configuration.
pub const VARIABLES: [&str; 8] = [
    "SSH_AUTH_SOCK",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "GNUPGHOME",
    "LOGNAME",
    "USER",
];

/// How long a helper may take: it may wait for a person who unlocks a key ring.
const HELPER_TIME: Duration = Duration::from_secs(60);
/// The most bytes that a helper may return.
const MAX_ANSWER: u64 = 64 << 10;
/// How long a connection by `ssh` may take: as long as a request over HTTP.
const SSH_TIME: Duration = Duration::from_secs(10 * 60);
/// The most bytes that a pipe always takes at once when it takes any.
const PIPE_BUF: usize = 4096;
/// How long `ssh` may take to say why it failed.
const MESSAGE_TIME: Duration = Duration::from_secs(5);
/// The most bytes of the messages of `ssh`.
const MAX_MESSAGE: u64 = 4 << 10;

/// Starts programs.
#[derive(Debug, Clone)]
pub struct Programs {
    folders: Vec<PathBuf>,
    /// The environment, besides `PATH`.
    variables: Vec<(String, String)>,
}

impl Programs {
    /// Creates an environment with the user's home folder, and some of [`VARIABLES`].
    pub fn new(home: &str, variables: Vec<(String, String)>) -> Programs {
        let fixed = [("HOME", home), ("PATH", PATH), ("LC_ALL", "C")];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = fixed.into_iter().chain(variables).collect();
        Programs { folders: FOLDERS.map(PathBuf::from).into(), variables }
    }

    /// Looks for programs in other folders.
    #[cfg(test)]
    pub(crate) fn within(self, folders: Vec<PathBuf>) -> Programs {
        Programs { folders, ..self }
    }

    /// Prepares a program. Its name comes from the operator's configuration.
    fn command(&self, name: &str) -> Result<Command, SourceError> {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
        let found = match name.chars().all(is_plain) && !name.starts_with(['-', '.']) {
            true => self.folders.iter().map(|folder| folder.join(name)).find(is_program),
            false => None,
        };
        let Some(path) = found else {
            return Err(SourceError::request(
                format!("the program `{name}` is not installed"),
                format!("install it in {} or {}", FOLDERS[0], FOLDERS[1]),
            ));
        };
        #[expect(clippy::disallowed_methods, reason = "one of the programs of this module")]
        let mut command = Command::new(path);
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir("/");
        Ok(command)
    }

    /// Runs a helper with some input. Returns its output, or `None` if it failed: it has nothing.
    ///
    /// # Errors
    /// The helper is not installed, takes too long, or returns too much.
    pub(crate) fn ask(
        &self,
        name: &str,
        args: &[&str],
        input: &[u8],
    ) -> Result<Option<Vec<u8>>, SourceError> {
        let fail = |error: io::Error| SourceError::io(format!("run `{name}`"), error);
        let mut command = self.command(name)?;
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = EndOnDrop(command.spawn().map_err(fail)?);
        if let Some(mut stdin) = child.0.stdin.take() {
            match stdin.write_all(input) {
                // It does not need the input.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map_err(fail)?,
            }
        }
        let Some(stdout) = child.0.stdout.take() else { return Ok(None) };
        let output = read_within(stdout.take(MAX_ANSWER + 1), HELPER_TIME);
        let output = output.ok_or_else(|| fail(io::ErrorKind::TimedOut.into()))?.map_err(fail)?;
        if output.len() as u64 > MAX_ANSWER {
            return Err(fail(io::Error::other("the output is too long")));
        }
        let status = child.0.wait().map_err(fail)?;
        Ok(status.success().then_some(output))
    }

    /// Runs a command on a server with the system's `ssh`, and the operator's keys and known hosts.
    /// `config`: the configuration file, if it is not the default one.
    ///
    /// # Errors
    /// `ssh` is not installed, or cannot be started.
    pub fn ssh(
        &self,
        place: &SshPlace,
        remote: &str,
        config: Option<&std::path::Path>,
    ) -> Result<Ssh, SourceError> {
        let mut command = self.command("ssh")?;
        // No questions, no unknown hosts, and nothing but the two streams.
        for option in [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ClearAllForwardings=yes",
            "ForwardAgent=no",
            "ForwardX11=no",
            "PermitLocalCommand=no",
            "RequestTTY=no",
            "ConnectTimeout=30",
            "ServerAliveInterval=30",
            "SendEnv=GIT_PROTOCOL",
        ] {
            command.args(["-o", option]);
        }
        if let Some(config) = config {
            command.arg("-F").arg(config);
        }
        if let Some(port) = place.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &place.user {
            command.args(["-l", user]);
        }
        command.args(["--", &place.host, remote]).env("GIT_PROTOCOL", "version=2");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            EndOnDrop(command.spawn().map_err(|error| SourceError::io("start `ssh`", error))?);
        match (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Ssh {
                stdin: Some(stdin),
                stdout,
                stderr: Some(stderr),
                deadline: Instant::now() + SSH_TIME,
                _child: child,
            }),
            _ => Err(SourceError::io("start `ssh`", io::Error::other("it has no streams"))),
        }
    }
}

/// Reads a stream to its end. `None` if that takes longer.
fn read_within(
    mut from: impl Read + Send + 'static,
    time: Duration,
) -> Option<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = from.read_to_end(&mut bytes);
        // The receiver is gone if this took too long.
        drop(sender.send(read.map(|_| bytes)));
    });
    receiver.recv_timeout(time).ok()
}

/// Checks whether a path is a program that not everybody can change.
fn is_program(path: &PathBuf) -> bool {
    rustix::fs::stat(path).is_ok_and(|found| {
        let mode = Mode::from_raw_mode(found.st_mode);
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && mode.contains(Mode::XUSR)
            && !mode.contains(Mode::WOTH)
    })
}

/// A program that ends with this value.
#[derive(Debug)]
struct EndOnDrop(Child);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A connection by `ssh`.
#[derive(Debug)]
pub struct Ssh {
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    /// When reading and writing end.
    deadline: Instant,
    _child: EndOnDrop,
}

/// Waits until a stream can be read or written, or fails at the deadline.
fn wait(stream: &impl AsFd, event: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
    let mut streams = [PollFd::new(stream, event)];
    // Also a server that always has something to send must end.
    if left.is_zero() || rustix::event::poll(&mut streams, Some(&timeout))? == 0 {
        let why = format!("the connection took more than {} minutes", SSH_TIME.as_secs() / 60);
        return Err(io::Error::new(io::ErrorKind::TimedOut, why));
    }
    Ok(())
}

impl Read for Ssh {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(&self.stdout, PollFlags::IN, self.deadline)?;
        self.stdout.read(buffer)
    }
}

impl Write for Ssh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stdin {
            Some(stdin) => {
                wait(stdin, PollFlags::OUT, self.deadline)?;
                // More could wait for the server, after the deadline too.
                stdin.write(&bytes[..bytes.len().min(PIPE_BUF)])
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdin.as_mut().map_or(Ok(()), io::Write::flush)
    }
}

impl Connection for Ssh {
    fn failure(&mut self) -> Option<String> {
        // Without input, `ssh` ends.
        self.stdin = None;
        let message = read_within(self.stderr.take()?.take(MAX_MESSAGE), MESSAGE_TIME)?.ok()?;
        let message = String::from_utf8_lossy(&message);
        let lines: Vec<&str> =
            message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        (!lines.is_empty()).then(|| lines.join("; ").chars().take(400).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests write programs")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Writes programs into a folder, each as the text of a shell script.
    pub(crate) fn programs(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Programs) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in scripts {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let programs = Programs::new("/home/u", vec![("USER".to_owned(), "u".to_owned())]);
        let programs = programs.within(vec![folder.path().to_owned()]);
        (folder, programs)
    }

    #[test]
    fn helpers_run_with_a_minimal_environment() {
        let (_folder, programs) = programs(&[("helper", "cat; echo \"$@\"; env | sort")]);
        let output = programs.ask("helper", &["get", "a b"], b"in\n").unwrap().unwrap();
        let output = String::from_utf8(output).unwrap();
        let lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("_=")).collect();
        let path = format!("PATH={PATH}");
        assert_eq!(lines[..2], ["in", "get a b"]);
        // The shell sets PWD itself.
        assert_eq!(lines[2..], ["HOME=/home/u", "LC_ALL=C", &path, "PWD=/", "USER=u"]);
    }

    #[test]
    fn helper_that_fails_has_nothing() {
        let (_folder, programs) = programs(&[("helper", "echo x; exit 1")]);
        assert_eq!(programs.ask("helper", &[], b"").unwrap(), None);
    }

    #[test]
    fn output_of_helpers_is_limited() {
        let (_folder, programs) = programs(&[("helper", "head -c 70000 /dev/zero")]);
        assert!(programs.ask("helper", &[], b"").is_err());
    }

    #[test]
    fn only_programs_in_the_folders_are_started() {
        let (folder, programs) =
            programs(&[("helper", "true"), ("open", "true"), ("plain", "true")]);
        let set = |name: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path().join(name), mode).unwrap();
        };
        set("open", 0o777);
        set("plain", 0o644);
        programs.ask("helper", &[], b"").unwrap();
        for name in ["open", "plain", "missing", "../helper", "/bin/true", "a;b", "-x", ""] {
            assert!(programs.ask(name, &[], b"").is_err(), "{name}");
        }
    }

    #[test]
    fn ssh_is_started_without_a_shell_and_says_why_it_failed() {
        let (_folder, programs) = programs(&[(
            "ssh",
            "printf '%s\\n' \"$@\" \"$GIT_PROTOCOL\"; echo 'no route' >&2; exit 255",
        )]);
        let place = SshPlace::parse("ssh://git@host:2222/a").unwrap();
        let mut ssh = programs.ssh(&place, "git-upload-pack '/a'", None).unwrap();
        let mut output = String::new();
        ssh.read_to_string(&mut output).unwrap();
        let args: Vec<&str> = output.lines().collect();
        assert!(args.contains(&"StrictHostKeyChecking=yes") && args.contains(&"BatchMode=yes"));
        let end = ["-p", "2222", "-l", "git", "--", "host", "git-upload-pack '/a'", "version=2"];
        assert_eq!(args[args.len() - end.len()..], end);
        assert_eq!(ssh.failure().as_deref(), Some("no route"));
    }

    #[test]
    fn connections_by_ssh_end_at_their_deadline() {
        // It neither reads nor ends by itself.
        let (_folder, programs) = programs(&[("ssh", "echo x; exec sleep 60")]);
        let place = SshPlace::parse("ssh://git@host/a").unwrap();
        let mut ssh = programs.ssh(&place, "git-upload-pack '/a'", None).unwrap();
        let mut line = [0; 2];
        ssh.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"x\n");
        ssh.deadline = Instant::now() + Duration::from_millis(200);
        assert_eq!(ssh.read(&mut line).unwrap_err().kind(), io::ErrorKind::TimedOut);
        ssh.deadline = Instant::now() + Duration::from_millis(200);
        let error = ssh.write_all(&vec![0; 4 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
