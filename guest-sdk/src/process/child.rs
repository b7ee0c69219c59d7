//! Started programs, and the pipes between programs.

use std::io;

use super::{Error, host};
use crate::stream::CHUNK;

/// The source or destination of a standard stream of a started program.
///
/// ```no_run
/// use skillhost_guest::process::{Command, Stdio};
///
/// # async fn example() -> Result<(), skillhost_guest::process::Error> {
/// // Its output goes to this program's standard output.
/// let child = Command::new("python3").arg("report.py").stdout(Stdio::inherit()).spawn().await?;
/// assert!(child.wait().await.success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stdio(pub(super) Kind);

#[derive(Debug)]
pub(super) enum Kind {
    Inherit,
    Null,
    Piped,
    Bytes(Vec<u8>),
    Reader(PipeReader),
    Writer(PipeWriter),
    Stdout,
}

impl Stdio {
    /// Shares this program's own stream.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").stdin(skillhost_guest::process::Stdio::inherit());
    /// ```
    pub fn inherit() -> Self {
        Self(Kind::Inherit)
    }

    /// An empty input, or an output that is discarded.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").stderr(skillhost_guest::process::Stdio::null());
    /// ```
    pub fn null() -> Self {
        Self(Kind::Null)
    }

    /// Creates a pipe. The [`Child`] has its other end.
    ///
    /// ```no_run
    /// let command = skillhost_guest::process::Command::new("bash").stdout(skillhost_guest::process::Stdio::piped());
    /// ```
    pub fn piped() -> Self {
        Self(Kind::Piped)
    }

    /// Sends standard error to standard output, like `2>&1` in a shell.
    ///
    /// ```no_run
    /// use skillhost_guest::process::{Command, Stdio};
    ///
    /// let command = Command::new("bash").stdout(Stdio::piped()).stderr(Stdio::to_stdout());
    /// ```
    pub fn to_stdout() -> Self {
        Self(Kind::Stdout)
    }
}

impl<T: Into<Vec<u8>>> From<T> for Stdio {
    fn from(bytes: T) -> Self {
        Self(Kind::Bytes(bytes.into()))
    }
}

impl From<PipeReader> for Stdio {
    fn from(reader: PipeReader) -> Self {
        Self(Kind::Reader(reader))
    }
}

impl From<PipeWriter> for Stdio {
    fn from(writer: PipeWriter) -> Self {
        Self(Kind::Writer(writer))
    }
}

/// Creates a pipe, for example to connect two programs. It holds 64 KiB; writers wait while it is
/// full.
///
/// # Errors
///
/// Returns [`Error::Limit`] if the run has too many pipes.
///
/// ```no_run
/// use skillhost_guest::process::{Command, pipe};
///
/// # async fn example() -> Result<(), skillhost_guest::process::Error> {
/// let (reader, writer) = pipe()?;
/// let first = Command::new("python3").arg("produce.py").stdout(writer).spawn().await?;
/// let second = Command::new("python3").arg("consume.py").stdin(reader).spawn().await?;
/// first.wait().await;
/// second.wait().await;
/// # Ok(())
/// # }
/// ```
pub fn pipe() -> Result<(PipeReader, PipeWriter), Error> {
    let (reader, writer) = host::pipe()?;
    Ok((PipeReader { handle: reader }, PipeWriter { handle: writer }))
}

/// A started program, from [`Command::spawn`](super::Command::spawn).
///
/// Dropping a `Child` does not end the program. It ends at the latest with the first program of the
/// run.
///
/// ```no_run
/// use skillhost_guest::process::{Command, Stdio};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let mut child = Command::new("python3").arg("count.py").stdout(Stdio::piped()).spawn().await?;
/// let mut out = child.stdout.take().expect("piped");
/// while let Some(bytes) = out.chunk().await? {
///     skillhost_guest::println!("{} bytes so far", bytes.len());
/// }
/// skillhost_guest::println!("{:?}", child.wait().await);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Child {
    handle: host::Child,
    /// The write end of its standard input, if that is [`Stdio::piped`].
    pub stdin: Option<PipeWriter>,
    /// The read end of its standard output, if that is [`Stdio::piped`].
    pub stdout: Option<PipeReader>,
    /// The read end of its standard error, if that is [`Stdio::piped`].
    pub stderr: Option<PipeReader>,
}

impl Child {
    pub(super) fn new(handle: host::Child) -> Self {
        let reader = |handle| PipeReader { handle };
        let stdin = handle.stdin().map(|handle| PipeWriter { handle });
        let (stdout, stderr) = (handle.stdout().map(reader), handle.stderr().map(reader));
        Self { handle, stdin, stdout, stderr }
    }

    /// Returns the program's number, unique within the run.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::process::Error> {
    /// let child = skillhost_guest::process::Command::new("bash").spawn().await?;
    /// skillhost_guest::println!("started {}", child.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> u32 {
        self.handle.id()
    }

    /// Closes standard input if it is still in this `Child`, and waits until the program has ended.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::process::Error> {
    /// let status = skillhost_guest::process::Command::new("bash").arg("build.sh").spawn().await?.wait().await;
    /// assert!(status.success());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(mut self) -> ExitStatus {
        drop(self.stdin.take());
        ExitStatus::from(self.handle.ended().await)
    }

    /// Returns the status of the program, or `None` if it still runs.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::process::Error> {
    /// let child = skillhost_guest::process::Command::new("bash").arg("watch.sh").spawn().await?;
    /// if child.try_wait().is_none() {
    ///     child.kill();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_wait(&self) -> Option<ExitStatus> {
        self.handle.wait(Some(0)).map(ExitStatus::from)
    }

    /// Ends the program and those that it started.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), skillhost_guest::process::Error> {
    /// let child = skillhost_guest::process::Command::new("bash").arg("watch.sh").spawn().await?;
    /// child.kill();
    /// # Ok(())
    /// # }
    /// ```
    pub fn kill(&self) {
        self.handle.kill();
    }
}

/// How a started program ended.
///
/// ```
/// use skillhost_guest::process::ExitStatus;
///
/// assert!(ExitStatus::Exited(0).success());
/// assert_eq!(ExitStatus::Killed.code(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It ended by itself with this exit code.
    Exited(u8),
    /// It was ended by [`Child::kill`], or together with the program that started it.
    Killed,
    /// It trapped. The text names the trap.
    Trapped(String),
    /// It hit a limit. The text names the limit.
    Limit(String),
}

impl ExitStatus {
    /// Returns whether the program ended by itself with exit code 0.
    ///
    /// ```
    /// assert!(!skillhost_guest::process::ExitStatus::Exited(1).success());
    /// ```
    pub fn success(&self) -> bool {
        *self == Self::Exited(0)
    }

    /// Returns the exit code, or `None` if the program did not end by itself.
    ///
    /// ```
    /// assert_eq!(skillhost_guest::process::ExitStatus::Exited(64).code(), Some(64));
    /// ```
    pub fn code(&self) -> Option<u8> {
        match self {
            Self::Exited(code) => Some(*code),
            Self::Killed | Self::Trapped(_) | Self::Limit(_) => None,
        }
    }
}

impl From<host::Status> for ExitStatus {
    fn from(status: host::Status) -> Self {
        match status {
            host::Status::Exited(code) => Self::Exited(code),
            host::Status::Killed => Self::Killed,
            host::Status::Trapped(message) => Self::Trapped(message),
            host::Status::Limit(limit) => Self::Limit(limit),
        }
    }
}

/// The read end of a pipe. It implements [`std::io::Read`], which blocks.
#[derive(Debug)]
pub struct PipeReader {
    pub(super) handle: host::Reader,
}

impl PipeReader {
    /// Reads the next bytes, at most 64 KiB. `None` at the end.
    ///
    /// ```no_run
    /// # async fn example(mut reader: skillhost_guest::process::PipeReader) -> std::io::Result<()> {
    /// while let Some(bytes) = reader.chunk().await? {
    ///     skillhost_guest::println!("{} bytes", bytes.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            host::ready(vec![&self.handle], Vec::new()).await;
            match self.handle.read(CHUNK as u32, Some(0)) {
                // Another reader took the bytes first.
                Err(host::Error::Timeout) => {}
                other => {
                    return Ok(Some(other.map_err(Error::from)?).filter(|bytes| !bytes.is_empty()));
                }
            }
        }
    }

    /// Reads everything until the end.
    ///
    /// ```no_run
    /// # async fn example(reader: skillhost_guest::process::PipeReader) -> std::io::Result<()> {
    /// let all = reader.read_to_end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_to_end(mut self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(bytes) = self.chunk().await? {
            all.extend(bytes);
        }
        Ok(all)
    }
}

impl io::Read for PipeReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let max = into.len().min(CHUNK);
        let bytes = self.handle.read(max as u32, None).map_err(Error::from)?;
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// The write end of a pipe. Readers see the end of the file when the last write end is dropped.
///
/// It implements [`std::io::Write`], which blocks.
#[derive(Debug)]
pub struct PipeWriter {
    pub(super) handle: host::Writer,
}

impl PipeWriter {
    /// Writes all of `bytes`, and waits while the pipe is full.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::BrokenPipe`] if the read end is closed.
    ///
    /// ```no_run
    /// # async fn example(mut writer: skillhost_guest::process::PipeWriter) -> std::io::Result<()> {
    /// writer.write_all("a line\n").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            host::ready(Vec::new(), vec![&self.handle]).await;
            let taken = io::Write::write(self, rest)?;
            rest = &rest[taken..];
        }
        Ok(())
    }
}

impl io::Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.handle.write(&bytes[..bytes.len().min(CHUNK)]).map_err(Error::from)?;
        Ok(taken as usize)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
