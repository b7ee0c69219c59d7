//! Bytes between a pipe of the host and a stream of the shell, with back-pressure: what is not
//! taken is not read.

use bashkit::{CommandInput, CommandOutput, Result};

use crate::bindings::skillhost::skill::process::{self, Error, Reader, Writer};

/// Bytes per read: what a pipe holds.
const CHUNK: u32 = 64 * 1024;

/// From the program. When the shell's side is closed the pipe is too, and the program is told when
/// it writes next.
pub(super) async fn out(from: Option<Reader>, to: &CommandOutput) -> Result<()> {
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
            // The other end went away in a way of its own: there is nothing more to come.
            Err(_) => return Ok(()),
        }
    }
}

/// To the program.
pub(super) async fn in_(to: Option<Writer>, from: &CommandInput) -> Result<()> {
    let Some(writer) = to else { return Ok(()) };
    while let Some(bytes) = from.read_chunk().await? {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            process::ready(Vec::new(), vec![&writer]).await;
            // Room for this much is what `ready` means: more would block the whole shell.
            match writer.write(&rest[..rest.len().min(4096)]) {
                Ok(taken) => rest = &rest[taken as usize..],
                // Nobody reads any more: whoever writes to the shell's side is told the same.
                Err(_) => return Ok(()),
            }
        }
    }
    Ok(())
}
