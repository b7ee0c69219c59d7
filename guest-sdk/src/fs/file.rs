//! Open files.

use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::path::Path;

use super::error::error;
use super::metadata::Metadata;
use super::path::resolve;
use crate::bindings::filesystem::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, OpenFlags, PathFlags,
};
use crate::bindings::filesystem::wit_stream;
use crate::stream::{Sink, Source, block_on};

/// An open file, read and written from a position on that moves along.
///
/// What is written has arrived, and its errors are known, after [`File::close`]. A `File` is a
/// [`std::io::Read`], `Write` and `Seek` too; those block.
///
/// ```no_run
/// use skillhost_guest::fs::File;
///
/// # async fn example() -> std::io::Result<()> {
/// let mut lines = 0;
/// let mut log = File::open("/workspace/big.log").await?;
/// while let Some(bytes) = log.chunk().await? {
///     lines += bytes.iter().filter(|byte| **byte == b'\n').count();
/// }
/// # Ok(())
/// # }
/// ```
pub struct File {
    descriptor: Descriptor,
    path: String,
    position: u64,
    append: bool,
    source: Option<Source>,
    sink: Option<Sink>,
}

impl File {
    /// Opens a file to read it.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let file = skillhost_guest::fs::File::open("data.csv").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Makes an empty file to write, instead of what was there.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut file = skillhost_guest::fs::File::create("/workspace/out.csv").await?;
    /// file.write_all("name,size\n").await?;
    /// file.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// The next bytes, at most 64 KiB; `None` at the end.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut file = skillhost_guest::fs::File::open("data.bin").await?;
    /// let beginning = file.chunk().await?.unwrap_or_default();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let chunk = self.source().await?.chunk().await?;
        self.position += chunk.as_ref().map_or(0, Vec::len) as u64;
        Ok(chunk)
    }

    /// All from here to the end.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let bytes = skillhost_guest::fs::File::open("data.bin").await?.read_to_end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn read_to_end(&mut self) -> Result<Vec<u8>> {
        let bytes = self.source().await?.read_to_end().await?;
        self.position += bytes.len() as u64;
        Ok(bytes)
    }

    /// Writes all of it; returns when the host has taken it.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut file = skillhost_guest::fs::File::create("/tmp/log.txt").await?;
    /// file.write_all("text").await?;
    /// file.write_all([0, 1, 2]).await?;
    /// file.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        let bytes = bytes.as_ref();
        self.source = None;
        if self.sink.is_none() {
            self.sink = Some(self.open_sink());
        }
        let sink = self.sink.as_mut().expect("opened above");
        sink.write_all(bytes).await?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Waits until all that was written has arrived, and closes the file. Dropping one closes it
    /// too, without telling of errors.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let mut file = skillhost_guest::fs::File::create("/tmp/a").await?;
    /// file.write_all("a").await?;
    /// file.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(mut self) -> Result<()> {
        self.settle().await
    }

    /// What is known of it.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let size = skillhost_guest::fs::File::open("data.bin").await?.metadata().await?.len();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn metadata(&mut self) -> Result<Metadata> {
        self.settle().await?;
        self.descriptor
            .stat()
            .await
            .map(Metadata::from)
            .map_err(|code| error("look at", &self.path, code))
    }

    /// Moves the position; returns it, in bytes from the beginning.
    ///
    /// ```no_run
    /// use std::io::SeekFrom;
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let mut file = skillhost_guest::fs::File::open("data.bin").await?;
    /// file.seek(SeekFrom::End(-128)).await?;
    /// let tail = file.read_to_end().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.settle().await?;
        let (from, offset) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(offset) => (self.position, offset),
            SeekFrom::End(offset) => (self.metadata().await?.len(), offset),
        };
        let Some(position) = from.checked_add_signed(offset) else {
            let message = format!("seek in {}: before the beginning", self.path);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        };
        self.source = None;
        self.position = position;
        Ok(position)
    }

    async fn source(&mut self) -> Result<&mut Source> {
        self.settle().await?;
        Ok(self.source.get_or_insert_with(|| {
            let (reader, done) = self.descriptor.read_via_stream(self.position);
            let path = self.path.clone();
            Source::new(
                reader,
                Box::pin(async move { done.await.map_err(|code| error("read", &path, code)) }),
            )
        }))
    }

    fn open_sink(&self) -> Sink {
        let (writer, reader) = wit_stream::new();
        let done = if self.append {
            self.descriptor.append_via_stream(reader)
        } else {
            self.descriptor.write_via_stream(reader, self.position)
        };
        let path = self.path.clone();
        Sink::new(
            writer,
            Box::pin(async move { done.await.map_err(|code| error("write", &path, code)) }),
        )
    }

    /// Ends the stream of writes, if there is one.
    async fn settle(&mut self) -> Result<()> {
        match self.sink.take() {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        }
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        block_on(async {
            let count = self.source().await?.read(into).await?;
            self.position += count as u64;
            Ok(count)
        })
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        block_on(self.write_all(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        block_on(self.settle())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        block_on(File::seek(self, to))
    }
}

/// How to open a file; each is off at first. As std's.
///
/// ```no_run
/// use skillhost_guest::fs::OpenOptions;
///
/// # async fn example() -> std::io::Result<()> {
/// let lock = OpenOptions::new().write(true).create_new(true).open("/workspace/.lock").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
}

/// One setter, with the example that every public item has.
macro_rules! option {
    ($name:ident, $what:literal) => {
        #[doc = $what]
        ///
        /// ```no_run
        /// # async fn example() -> std::io::Result<()> {
        #[doc = concat!("let options = skillhost_guest::fs::OpenOptions::new().write(true).", stringify!($name), "(true);")]
        /// let file = options.open("/tmp/file").await?;
        /// # Ok(())
        /// # }
        /// ```
        pub fn $name(mut self, on: bool) -> Self {
            self.$name = on;
            self
        }
    };
}

impl OpenOptions {
    /// All off.
    ///
    /// ```no_run
    /// let options = skillhost_guest::fs::OpenOptions::new().read(true);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    option!(read, "To read it.");
    option!(write, "To write it.");
    option!(append, "To write at its end, wherever that is by then.");
    option!(truncate, "Empties it.");
    option!(create, "Makes it where there is none.");
    option!(create_new, "Makes it, and fails where there is one.");

    /// Opens the file.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let file = skillhost_guest::fs::OpenOptions::new().read(true).write(true).open("/workspace/db").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(&self, path: impl AsRef<Path>) -> Result<File> {
        let at = resolve(path)?;
        let mut flags = DescriptorFlags::empty();
        flags.set(DescriptorFlags::READ, self.read);
        flags.set(DescriptorFlags::WRITE, self.write || self.append);
        let mut open = OpenFlags::empty();
        open.set(OpenFlags::CREATE, self.create || self.create_new);
        open.set(OpenFlags::EXCLUSIVE, self.create_new);
        open.set(OpenFlags::TRUNCATE, self.truncate);
        let attempt = if self.create || self.create_new { "create" } else { "open" };
        let opened =
            at.folder.open_at(PathFlags::SYMLINK_FOLLOW, at.relative.clone(), open, flags).await;
        let descriptor = opened.map_err(|code| error(attempt, &at.absolute, code))?;
        Ok(File {
            descriptor,
            path: at.absolute,
            position: 0,
            append: self.append,
            source: None,
            sink: None,
        })
    }
}
