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

/// An open file with a position at which it is read and written.
///
/// Written bytes have arrived, and all errors are reported, when [`File::close`] returns. A `File`
/// implements [`std::io::Read`], `Write` and `Seek`, which block.
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
    /// Opens a file for reading.
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

    /// Creates a file for writing, and truncates it if it exists.
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

    /// Reads the next bytes, at most 64 KiB. `None` at the end.
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

    /// Reads from the current position to the end.
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

    /// Writes all of `bytes`; returns when the host has taken them.
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

    /// Waits until everything written has arrived, and closes the file.
    ///
    /// Dropping a `File` closes it as well, but ignores errors.
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
        self.finish_writes().await
    }

    /// Returns the metadata of the file.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let size = skillhost_guest::fs::File::open("data.bin").await?.metadata().await?.len();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn metadata(&mut self) -> Result<Metadata> {
        self.finish_writes().await?;
        self.descriptor
            .stat()
            .await
            .map(Metadata::from)
            .map_err(|code| error("stat", &self.path, code))
    }

    /// Moves the position. Returns the new position, in bytes from the beginning.
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
        self.finish_writes().await?;
        let (from, offset) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(offset) => (self.position, offset),
            SeekFrom::End(offset) => (self.metadata().await?.len(), offset),
        };
        let Some(position) = from.checked_add_signed(offset) else {
            let message = format!("seek in {}: before the beginning of the file", self.path);
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, message));
        };
        self.source = None;
        self.position = position;
        Ok(position)
    }

    async fn source(&mut self) -> Result<&mut Source> {
        self.finish_writes().await?;
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

    /// Finishes the stream of writes, if there is one.
    async fn finish_writes(&mut self) -> Result<()> {
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
        block_on(self.finish_writes())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        block_on(File::seek(self, to))
    }
}

/// Options for opening a file, like std's. All are off at first.
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

/// Defines the setter of one option, with its example.
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
    /// Returns options that are all off.
    ///
    /// ```no_run
    /// let options = skillhost_guest::fs::OpenOptions::new().read(true);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    option!(read, "Opens the file for reading.");
    option!(write, "Opens the file for writing.");
    option!(append, "Appends every write to the end of the file.");
    option!(truncate, "Truncates the file.");
    option!(create, "Creates the file if it does not exist.");
    option!(create_new, "Creates the file, and fails if it exists.");

    /// Opens a file with these options.
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
