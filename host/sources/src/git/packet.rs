//! Packets of Git's protocol: four hex digits of length, and that many bytes.

use std::io::{self, Read};

use super::corrupt;
use crate::error::{Refusal, RefusalRule, SourceError};

/// The most bytes of a packet, with its length.
const MAX: usize = 65_520;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    /// The end of a message.
    Flush,
    /// The end of a section.
    Delimiter,
    /// Some bytes.
    Data(Vec<u8>),
}

/// Appends a line to a request.
pub(super) fn line(request: &mut Vec<u8>, text: &str) {
    request.extend(format!("{:04x}{text}\n", text.len() + 5).as_bytes());
}

/// The marker between the head and the arguments of a command.
pub(super) const DELIMITER: &[u8] = b"0001";
/// The end of a command.
pub(super) const FLUSH: &[u8] = b"0000";

/// Reads the next packet. `None` at the end of the stream.
pub(super) fn read(from: &mut dyn Read) -> Result<Option<Packet>, SourceError> {
    let mut digits = [0; 4];
    if !fill(from, &mut digits)? {
        return Ok(None);
    }
    let length =
        str::from_utf8(&digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
    let bytes = match length {
        Some(0 | 2) => return Ok(Some(Packet::Flush)),
        Some(1) => return Ok(Some(Packet::Delimiter)),
        Some(length @ 4..=MAX) => length - 4,
        _ => return Err(corrupt("the server sent a packet without a valid length")),
    };
    let mut data = vec![0; bytes];
    if bytes > 0 && !fill(from, &mut data)? {
        return Err(truncated());
    }
    Ok(Some(Packet::Data(data)))
}

/// Fills a buffer. Returns `false` if the stream has ended before it.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> Result<bool, SourceError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(truncated()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SourceError::Input(error)),
        }
    }
    Ok(true)
}

pub(super) fn truncated() -> SourceError {
    Refusal::new(RefusalRule::Truncated, "the response of the server is truncated").into()
}

/// Returns a line without its end.
pub(super) fn text(data: &[u8]) -> Result<&str, SourceError> {
    let text =
        str::from_utf8(data).map_err(|_| corrupt("the server sent a line that is not UTF-8"))?;
    Ok(text.strip_suffix('\n').unwrap_or(text))
}
