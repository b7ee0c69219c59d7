//! Exit codes, and running other programs of the sandbox.

mod child;

use std::fmt;
use std::io;

use child::Kind;
pub use child::{Child, ExitStatus, PipeReader, PipeWriter, Stdio, pipe};

use crate::bindings::exit::wasi::cli::exit::exit_with_code;
use crate::bindings::process::skillhost::skill::process as host;
use crate::stream::{block_on, finish_all};

/// Flushes the output and ends the program with `code`.
///
/// ```no_run
/// skillhost_guest::eprintln!("usage: greet NAME");
/// skillhost_guest::process::exit(64);
/// ```
pub fn exit(code: u8) -> ! {
    // The caller's exit code is more useful than an error of the last flush.
    block_on(finish_all()).ok();
    exit_with_code(code);
    unreachable!("the host ends the program")
}

/// An exit code, to be returned from `main`.
///
/// ```no_run
/// use skillhost_guest::process::ExitCode;
///
/// #[skillhost_guest::main]
/// async fn main(args: Vec<String>) -> ExitCode {
///     if args.len() == 2 { ExitCode::SUCCESS } else { ExitCode::from(64) }
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// Success: 0.
    ///
    /// ```
    /// use skillhost_guest::process::ExitCode;
    ///
    /// assert_eq!(u8::from(ExitCode::SUCCESS), 0);
    /// ```
    pub const SUCCESS: Self = Self(0);
    /// Failure: 1.
    ///
    /// ```
    /// use skillhost_guest::process::ExitCode;
    ///
    /// assert_eq!(u8::from(ExitCode::FAILURE), 1);
    /// ```
    pub const FAILURE: Self = Self(1);
}

impl From<u8> for ExitCode {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

impl From<ExitCode> for u8 {
    fn from(code: ExitCode) -> Self {
        code.0
    }
}

/// Builds and runs a program of the sandbox: `python3`, `bash`, or a component of the skill.
///
/// The program has the capabilities of this program and the remainder of its limits. Native
/// programs never run.
///
/// ```no_run
/// use skillhost_guest::process::Command;
///
/// # async fn example() -> Result<(), skillhost_guest::process::Error> {
/// let output = Command::new("python3").args(["-c", "print(6 * 7)"]).output().await?;
/// assert!(output.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Command {
    argv: Vec<String>,
    env: Option<Vec<(String, String)>>,
    current_dir: Option<String>,
    stdin: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

impl Command {
    /// Creates a command that inherits this program's environment and working directory.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash");
    /// ```
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            env: None,
            current_dir: None,
            stdin: None,
            stdout: None,
            stderr: None,
        }
    }

    /// Adds one argument.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").arg("build.sh");
    /// ```
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds several arguments.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").args(["-c", "ls | wc -l"]);
    /// ```
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").env("LANG", "C");
    /// ```
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        let env = self.env.get_or_insert_with(crate::env::vars);
        env.retain(|(known, _)| *known != name);
        env.push((name, value.into()));
        self
    }

    /// Clears the environment: neither inherited variables nor those set before remain.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").env_clear().env("A", "1");
    /// ```
    pub fn env_clear(mut self) -> Self {
        self.env = Some(Vec::new());
        self
    }

    /// Sets the working directory, an absolute path.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").current_dir("/tmp");
    /// ```
    pub fn current_dir(mut self, path: impl Into<String>) -> Self {
        self.current_dir = Some(path.into());
        self
    }

    /// Sets standard input: bytes or a [`Stdio`]. By default, [`Command::spawn`] inherits it and
    /// [`Command::output`] leaves it empty.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("jq").arg(".").stdin(r#"{"a": 1}"#);
    /// ```
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.stdin = Some(from.into());
        self
    }

    /// Sets standard output. By default, [`Command::spawn`] inherits it; [`Command::output`] always
    /// captures it.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Stdio};
    ///
    /// let command = Command::new("bash").stdout(Stdio::piped());
    /// ```
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    /// Sets standard error. By default, [`Command::spawn`] inherits it; [`Command::output`] always
    /// captures it.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Stdio};
    ///
    /// let command = Command::new("bash").stdout(Stdio::piped()).stderr(Stdio::to_stdout());
    /// ```
    pub fn stderr(mut self, to: impl Into<Stdio>) -> Self {
        self.stderr = Some(to.into());
        self
    }

    /// Starts the program, which then runs concurrently with this one.
    ///
    /// Bytes for standard input are written before this returns. A pipe holds 64 KiB, so with more
    /// bytes this waits until the program has read the rest.
    ///
    /// # Errors
    ///
    /// Returns an error if the program does not start.
    ///
    /// # Panics
    ///
    /// Panics if an output is set to bytes or to the read end of a pipe, or standard input to the
    /// write end of a pipe.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Stdio};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut child = Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().await?;
    /// let mut input = child.stdin.take().expect("piped");
    /// input.write_all("b\na\n").await?;
    /// drop(input);
    /// let sorted = child.stdout.take().expect("piped").read_to_end().await?;
    /// assert_eq!(sorted, b"a\nb\n");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn spawn(self) -> Result<Child, Error> {
        let Stdio(stdin) = self.stdin.unwrap_or_else(Stdio::inherit);
        let Stdio(stdout) = self.stdout.unwrap_or_else(Stdio::inherit);
        let Stdio(stderr) = self.stderr.unwrap_or_else(Stdio::inherit);
        let input = match &stdin {
            Kind::Inherit => host::Input::Inherit,
            Kind::Null => host::Input::None,
            Kind::Piped | Kind::Bytes(_) => host::Input::Pipe,
            Kind::Reader(reader) => host::Input::From(&reader.handle),
            Kind::Writer(_) | Kind::Stdout => panic!("standard input is read, not written"),
        };
        let handle = host::spawn(
            &self.argv,
            self.env.as_deref(),
            self.current_dir.as_deref(),
            &input,
            &output(&stdout),
            &output(&stderr),
        )?;
        let mut child = Child::new(handle);
        if let (Kind::Bytes(bytes), Some(mut writer)) =
            (&stdin, child.stdin.take_if(|_| matches!(stdin, Kind::Bytes(_))))
        {
            // A program may end before it has read all of its input: not an error.
            writer.write_all(bytes).await.ok();
        }
        Ok(child)
    }

    /// Runs the program to its end and captures its output.
    ///
    /// Standard input is empty unless it was set to bytes; any other setting of the streams is
    /// ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the program does not run or does not finish. An exit code other than 0
    /// is not an error.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Error};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// match Command::new("jq").arg(".").output().await {
    ///     Err(Error::NotFound(name)) => skillhost_guest::println!("the sandbox has no {name}"),
    ///     other => skillhost_guest::println!("{}", other?.text()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn output(self) -> Result<Output, Error> {
        let stdin = match self.stdin {
            Some(Stdio(Kind::Bytes(bytes))) => bytes,
            _ => Vec::new(),
        };
        let command =
            host::Command { argv: self.argv, env: self.env, cwd: self.current_dir, stdin };
        let completed = host::run(command).await?;
        Ok(Output { code: completed.exit_code, stdout: completed.stdout, stderr: completed.stderr })
    }
}

fn output(to: &Kind) -> host::Output<'_> {
    match to {
        Kind::Inherit => host::Output::Inherit,
        Kind::Null => host::Output::None,
        Kind::Piped => host::Output::Pipe,
        Kind::Writer(writer) => host::Output::To(&writer.handle),
        Kind::Stdout => host::Output::ToStdout,
        Kind::Bytes(_) | Kind::Reader(_) => panic!("an output is written, not read"),
    }
}

/// Exit code and output of a program, from [`Command::output`].
///
/// ```no_run
/// # async fn example() -> Result<(), skillhost_guest::process::Error> {
/// let output = skillhost_guest::process::Command::new("bash").args(["-c", "date"]).output().await?;
/// skillhost_guest::println!("{} {}", output.code, output.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit code, 0 to 255.
    pub code: u8,
    /// The bytes that the program wrote to standard output.
    pub stdout: Vec<u8>,
    /// The bytes that the program wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns whether the exit code is 0.
    ///
    /// ```
    /// let output = skillhost_guest::process::Output { code: 2, stdout: vec![], stderr: vec![] };
    /// assert!(!output.success());
    /// ```
    pub fn success(&self) -> bool {
        self.code == 0
    }

    /// Returns standard output as text. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// ```
    /// let output = skillhost_guest::process::Output { code: 0, stdout: b"42\n".to_vec(), stderr: vec![] };
    /// assert_eq!(output.text(), "42\n");
    /// ```
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }
}

/// The reason why a program did not start or did not finish, with the host's message.
///
/// ```
/// use skillhost_guest::process::Error;
///
/// assert_eq!(Error::NotFound("perl".into()).to_string(), "no such program: perl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The sandbox has no program of that name.
    NotFound(String),
    /// The capabilities do not allow the command.
    Denied(String),
    /// A limit was hit: depth, count, memory, time or output.
    Limit(String),
    /// The program trapped.
    Trapped(String),
    /// The read end of the pipe is closed.
    Closed,
}

impl From<host::Error> for Error {
    fn from(error: host::Error) -> Self {
        match error {
            host::Error::NotFound(message) => Self::NotFound(message),
            host::Error::Denied(message) => Self::Denied(message),
            host::Error::Limit(message) => Self::Limit(message),
            host::Error::Trapped(message) => Self::Trapped(message),
            host::Error::Closed => Self::Closed,
            host::Error::Timeout => Self::Limit("timeout".into()),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::NotFound(_) => io::ErrorKind::NotFound,
            Error::Denied(_) => io::ErrorKind::PermissionDenied,
            Error::Limit(_) => io::ErrorKind::QuotaExceeded,
            Error::Trapped(_) => io::ErrorKind::Other,
            Error::Closed => io::ErrorKind::BrokenPipe,
        };
        io::Error::new(kind, error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(message) => write!(f, "no such program: {message}"),
            Error::Denied(message) => write!(f, "denied: {message}"),
            Error::Limit(message) => write!(f, "limit hit: {message}"),
            Error::Trapped(message) => write!(f, "the program trapped: {message}"),
            Error::Closed => write!(f, "nobody reads the pipe any more"),
        }
    }
}

impl std::error::Error for Error {}
