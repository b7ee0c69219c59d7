//! Standard input.

use std::rc::Rc;

use super::{Error, ErrorKind, Result, error};
use crate::bindings::stdin::wasi::cli::{stdin::read_via_stream, types};
use crate::stream::{Slot, Source, block_on};

thread_local! {
    static STDIN: Rc<Slot<Option<Source>>> = Slot::new(None);
}

/// Returns a handle to standard input. All handles read from the same stream.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let text = skillhost_guest::io::stdin().read_to_string().await?;
/// # Ok(())
/// # }
/// ```
pub fn stdin() -> Stdin {
    Stdin { slot: STDIN.with(Rc::clone) }
}

/// A handle to standard input, from [`stdin`].
///
/// It implements [`std::io::Read`], which blocks, for parsers that take a reader
/// (`serde_json::from_reader`, `csv::Reader`).
///
/// ```no_run
/// use skillhost_guest::io::stdin;
///
/// let first_lines = std::io::BufReader::new(stdin());
/// ```
pub struct Stdin {
    slot: Rc<Slot<Option<Source>>>,
}

impl Stdin {
    /// Reads the next bytes, at most 64 KiB. `None` at the end.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut count = 0;
    /// while let Some(bytes) = skillhost_guest::io::stdin().chunk().await? {
    ///     count += bytes.len();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn chunk(&self) -> Result<Option<Vec<u8>>> {
        open(&mut *self.slot.lock().await).chunk().await
    }

    /// Reads the rest of the input.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let bytes = skillhost_guest::io::stdin().read_to_end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_to_end(&self) -> Result<Vec<u8>> {
        open(&mut *self.slot.lock().await).read_to_end().await
    }

    /// Reads the rest of the input as text.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidData`] if it is not UTF-8.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let text = skillhost_guest::io::stdin().read_to_string().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_to_string(&self) -> Result<String> {
        text(self.read_to_end().await?)
    }

    /// Reads the input line by line, without line ends (`\n` or `\r\n`).
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut lines = skillhost_guest::io::stdin().lines();
    /// while let Some(line) = lines.next_line().await? {
    ///     skillhost_guest::println!("{}", line.trim());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lines(self) -> Lines {
        Lines { input: self }
    }
}

impl std::io::Read for Stdin {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        block_on(async { open(&mut *self.slot.lock().await).read(into).await })
    }
}

/// The lines of standard input, from [`Stdin::lines`].
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// let header = skillhost_guest::io::stdin().lines().next_line().await?;
/// # Ok(())
/// # }
/// ```
pub struct Lines {
    input: Stdin,
}

impl Lines {
    /// Reads the next line. `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidData`] if the line is not UTF-8.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut lines = skillhost_guest::io::stdin().lines();
    /// while let Some(line) = lines.next_line().await? {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_line(&mut self) -> Result<Option<String>> {
        let Some(mut line) = open(&mut *self.input.slot.lock().await).line().await? else {
            return Ok(None);
        };
        for end in [b'\n', b'\r'] {
            if line.last() == Some(&end) {
                line.pop();
            }
        }
        text(line).map(Some)
    }
}

fn open(source: &mut Option<Source>) -> &mut Source {
    source.get_or_insert_with(|| {
        let (reader, done) = read_via_stream();
        Source::new(
            reader,
            Box::pin(async move {
                done.await.map_err(|code| error!("read stdin", types::ErrorCode, code))
            }),
        )
    })
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes)
        .map_err(|error| Error::new(ErrorKind::InvalidData, format!("read stdin: {error}")))
}
