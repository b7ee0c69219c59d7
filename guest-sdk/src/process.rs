//! Ending this program, and running others of the sandbox.

use std::fmt;

use crate::bindings::exit::wasi::cli::exit::exit_with_code;
use crate::bindings::process::skillhost::skill::process as host;
use crate::stream::{block_on, finish_all};

/// Ends the program at once, after writing out what was printed.
///
/// ```no_run
/// skillhost_guest::eprintln!("usage: greet NAME");
/// skillhost_guest::process::exit(64);
/// ```
pub fn exit(code: u8) -> ! {
    // The exit code says more than an error of the last flush would.
    block_on(finish_all()).ok();
    exit_with_code(code);
    unreachable!("the host ends the program")
}

/// What `main` may return to end with a code of its own.
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
    /// 0.
    ///
    /// ```
    /// use skillhost_guest::process::ExitCode;
    ///
    /// assert_eq!(u8::from(ExitCode::SUCCESS), 0);
    /// ```
    pub const SUCCESS: Self = Self(0);
    /// 1.
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

/// A program of the sandbox to run: `python3`, `bash`, or a component of the skill. It has this program's capabilities
/// and what is left of its limits; nothing native ever runs.
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
#[derive(Clone, Debug)]
pub struct Command {
    argv: Vec<String>,
    env: Option<Vec<(String, String)>>,
    current_dir: Option<String>,
    stdin: Vec<u8>,
}

impl Command {
    /// Runs `program` with this program's environment and working directory and an empty standard input.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash");
    /// ```
    pub fn new(program: impl Into<String>) -> Self {
        Self { argv: vec![program.into()], env: None, current_dir: None, stdin: Vec::new() }
    }

    /// Adds an argument.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").arg("build.sh");
    /// ```
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.argv.push(argument.into());
        self
    }

    /// Adds arguments.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").args(["-c", "ls | wc -l"]);
    /// ```
    pub fn args<A: Into<String>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.argv.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment, or replaces it.
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

    /// Starts from an empty environment; variables set before are gone too.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").env_clear().env("A", "1");
    /// ```
    pub fn env_clear(mut self) -> Self {
        self.env = Some(Vec::new());
        self
    }

    /// The working directory, an absolute path.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").current_dir("/tmp");
    /// ```
    pub fn current_dir(mut self, path: impl Into<String>) -> Self {
        self.current_dir = Some(path.into());
        self
    }

    /// All of its standard input.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("jq").arg(".").stdin(r#"{"a": 1}"#);
    /// ```
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// Where it did not run or did not finish. A program that ends with an exit code other than 0 is no error here.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Error};
    ///
    /// # async fn example() -> Result<(), Error> {
    /// match Command::new("jq").arg(".").output().await {
    ///     Err(Error::NotFound(name)) => skillhost_guest::println!("there is no {name} here"),
    ///     other => skillhost_guest::println!("{}", other?.text()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn output(self) -> Result<Output, Error> {
        let command = host::Command { argv: self.argv, env: self.env, cwd: self.current_dir, stdin: self.stdin };
        match host::run(command).await {
            Ok(completed) => Ok(Output { code: completed.exit_code, stdout: completed.stdout, stderr: completed.stderr }),
            Err(host::Error::NotFound(message)) => Err(Error::NotFound(message)),
            Err(host::Error::Denied(message)) => Err(Error::Denied(message)),
            Err(host::Error::Limit(message)) => Err(Error::Limit(message)),
            Err(host::Error::Trapped(message)) => Err(Error::Trapped(message)),
        }
    }
}

/// A program that has ended, from [`Command::output`].
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
    /// Its exit code, 0 to 255.
    pub code: u8,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Whether the exit code is 0.
    ///
    /// ```
    /// let output = skillhost_guest::process::Output { code: 2, stdout: vec![], stderr: vec![] };
    /// assert!(!output.success());
    /// ```
    pub fn success(&self) -> bool {
        self.code == 0
    }

    /// Its standard output as text; bytes that are not UTF-8 become U+FFFD.
    ///
    /// ```
    /// let output = skillhost_guest::process::Output { code: 0, stdout: b"42\n".to_vec(), stderr: vec![] };
    /// assert_eq!(output.text(), "42\n");
    /// ```
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }
}

/// Why a program did not run, or did not finish. The texts are the host's.
///
/// ```
/// use skillhost_guest::process::Error;
///
/// assert_eq!(Error::NotFound("perl".into()).to_string(), "no such program: perl");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No program of that name is in the sandbox.
    NotFound(String),
    /// The capabilities do not hold that command.
    Denied(String),
    /// A limit was hit: depth, count, memory, time, output.
    Limit(String),
    /// The program trapped.
    Trapped(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(message) => write!(f, "no such program: {message}"),
            Error::Denied(message) => write!(f, "denied: {message}"),
            Error::Limit(message) => write!(f, "limit hit: {message}"),
            Error::Trapped(message) => write!(f, "the program trapped: {message}"),
        }
    }
}

impl std::error::Error for Error {}
