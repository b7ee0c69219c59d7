//! Standard input.

use std::rc::Rc;

use super::{Error, ErrorKind, Result, error};
use crate::bindings::stdin::wasi::cli::{stdin::read_via_stream, types};
use crate::stream::{Slot, Source, block_on};

thread_local! {
    static STDIN: Rc<Slot<Option<Source>>> = Slot::new(None);
}

/// Standard input. Every handle reads from the same stream.
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

/// A handle to standard input, made by [`stdin`].
///
/// It is a [`std::io::Read`] too, for parsers that take one (`serde_json::from_reader`,
/// `csv::Reader`); that blocks.
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
    /// The next bytes, at most 64 KiB; `None` at the end.
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
        opened(&mut *self.slot.lock().await).chunk().await
    }

    /// All that is left.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let bytes = skillhost_guest::io::stdin().read_to_end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_to_end(&self) -> Result<Vec<u8>> {
        opened(&mut *self.slot.lock().await).read_to_end().await
    }

    /// All that is left, as text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidData`] where it is not UTF-8.
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

    /// Its lines, one by one, without their ends (`\n` or `\r\n`).
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
        block_on(async { opened(&mut *self.slot.lock().await).read(into).await })
    }
}

/// The lines of standard input, made by [`Stdin::lines`].
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
    /// The next line, `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidData`] where it is not UTF-8.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut lines = skillhost_guest::io::stdin().lines();
    /// while let Some(line) = lines.next_line().await? {}
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_line(&mut self) -> Result<Option<String>> {
        let Some(mut line) = opened(&mut *self.input.slot.lock().await).line().await? else {
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

fn opened(source: &mut Option<Source>) -> &mut Source {
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
