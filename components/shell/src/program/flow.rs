//! Moves bytes between a pipe of the host and a stream of the shell, with back-pressure: nothing is
//! read before the previous bytes are taken.

use bashkit::{CommandInput, CommandOutput, Result};

use crate::bindings::skillhost::skill::process::{self, Error, Reader, Writer};

/// Bytes per read: the capacity of a pipe.
const CHUNK: u32 = 64 * 1024;

/// Moves bytes from the program. If the shell's side is closed, the pipe is closed as well, and the
/// program's next write fails.
pub(super) async fn from_program(from: Option<Reader>, to: &CommandOutput) -> Result<()> {
    let Some(reader) = from else { return Ok(()) };
    loop {
        match reader.read(CHUNK, Some(0)) {
            Ok(bytes) if bytes.is_empty() => return Ok(()),
            Ok(bytes) => match to.write_all(&bytes).await {
                Ok(()) => {}
                Err(bashkit::Error::Io(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            Err(Error::Timeout) => {
                process::ready(vec![&reader], Vec::new()).await;
            }
            // The other end is gone: no more data.
            Err(_) => return Ok(()),
        }
    }
}

/// Moves bytes to the program.
pub(super) async fn to_program(to: Option<Writer>, from: &CommandInput) -> Result<()> {
    let Some(writer) = to else { return Ok(()) };
    while let Some(bytes) = from.read_chunk().await? {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            process::ready(Vec::new(), vec![&writer]).await;
            // `ready` guarantees room for this many bytes. Writing more would block the whole
            // shell.
            match writer.write(&rest[..rest.len().min(4096)]) {
                Ok(taken) => rest = &rest[taken as usize..],
                // The reader is gone: the writer on the shell's side gets the same error.
                Err(_) => return Ok(()),
            }
        }
    }
    Ok(())
}
