//! The chain: each line of the log ends with its number, the digest of the previous line, and its
//! own digest.
//!
//! ```text
//! {"version":2, ... ,"sequence":17,"previous":"sha256:...","digest":"sha256:..."}
//! ```
//!
//! `digest` covers all bytes of the line before `,"digest":`. So a line can be checked alone, and
//! its position by the line before it.

use skillhost_skill::runtime;

/// A place in the chain.
#[derive(
    Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct ChainHead {
    /// The number of the record, from 1.
    pub sequence: u64,
    /// Its digest.
    pub digest: String,
}

/// The parsed end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link<'a> {
    pub(super) sequence: u64,
    pub(super) previous: &'a str,
    pub(super) digest: &'a str,
    /// The bytes that the digest covers.
    pub(super) content: &'a [u8],
}

/// The longest end of a line, in bytes: three names, a number of 20 digits, and two digests.
pub(super) const TRAILER_MAX: usize = 256;
/// How many bytes at the end of a journal to search first for its last record: enough for a run
/// that started no programs.
pub(super) const LINE: usize = 4 << 10;
/// How many bytes to search next.
pub(super) const LINE_MAX: usize = 16 << 10;

/// The start of the first line of a journal that continues a sealed one. Its end is that of the
/// sealed journal's last line.
const ANCHOR: &[u8] = br#"{"version":2,"anchor":true,"#;

const SEQUENCE: &str = ",\"sequence\":";
const PREVIOUS: &str = ",\"previous\":\"sha256:";
const DIGEST: &str = ",\"digest\":\"sha256:";
const HEX: usize = 64;

impl ChainHead {
    /// The head that the first record follows.
    pub fn start() -> ChainHead {
        ChainHead { sequence: 0, digest: format!("sha256:{}", "0".repeat(HEX)) }
    }
}

/// Ends a JSON object as the line after `head`, and returns the new head.
pub(super) fn close(line: &mut Vec<u8>, head: &ChainHead) -> ChainHead {
    debug_assert_eq!(line.last(), Some(&b'}'));
    line.pop();
    let sequence = head.sequence + 1;
    line.extend_from_slice(
        format!("{SEQUENCE}{sequence},\"previous\":\"{}\"", head.digest).as_bytes(),
    );
    let digest = runtime::digest(line);
    line.extend_from_slice(format!(",\"digest\":\"{digest}\"}}").as_bytes());
    ChainHead { sequence, digest }
}

/// Returns the first line of a journal that continues after `last`.
pub(super) fn anchor(last: &Link<'_>) -> Vec<u8> {
    let mut line = ANCHOR[..ANCHOR.len() - 1].to_vec();
    let Link { sequence, previous, digest, .. } = last;
    line.extend_from_slice(
        format!("{SEQUENCE}{sequence},\"previous\":\"{previous}\",\"digest\":\"{digest}\"}}\n")
            .as_bytes(),
    );
    line
}

/// Checks whether a line is an [`anchor`].
pub(super) fn is_anchor(line: &[u8]) -> bool {
    line.starts_with(ANCHOR)
}

/// Returns the last record of some lines, which have no trailing newline: a record with a valid
/// digest, or the anchor that a journal starts with.
pub(super) fn last_record(lines: &[u8], from_start: bool) -> Option<Link<'_>> {
    let newline = lines.iter().rposition(|byte| *byte == b'\n');
    let is_first = newline.is_none();
    if is_first && !from_start {
        return None;
    }
    let line = &lines[newline.map_or(0, |at| at + 1)..];
    let link = Link::of(line)?;
    (link.holds() || is_first && is_anchor(line)).then_some(link)
}

impl<'a> Link<'a> {
    /// Parses the end of a line without its newline; `None` if it is not the end of a record.
    pub(super) fn of(line: &'a [u8]) -> Option<Link<'a>> {
        let (content, digest) = split(line.strip_suffix(b"\"}")?, DIGEST)?;
        let (rest, previous) = split(content.strip_suffix(b"\"")?, PREVIOUS)?;
        let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, sequence) = rest.split_at(rest.len() - digits);
        before.ends_with(SEQUENCE.as_bytes()).then_some(())?;
        Some(Link {
            sequence: std::str::from_utf8(sequence).ok()?.parse().ok()?,
            previous,
            digest,
            content,
        })
    }

    /// Checks the digest of the line. This cannot detect a line that was replaced as a whole.
    pub(super) fn holds(&self) -> bool {
        runtime::digest(self.content) == self.digest
    }

    pub(super) fn head(&self) -> ChainHead {
        ChainHead { sequence: self.sequence, digest: self.digest.to_owned() }
    }
}

/// Returns the text before a name at the end, and the digest after it.
fn split<'a>(text: &'a [u8], name: &str) -> Option<(&'a [u8], &'a str)> {
    let (rest, hex) = text.split_at_checked(text.len().checked_sub(HEX)?)?;
    let valid = hex.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let content = rest.strip_suffix(name.as_bytes()).filter(|_| valid)?;
    // Include the name of the algorithm, which comes just before the digits.
    let digest = &text[text.len() - HEX - "sha256:".len()..];
    Some((content, std::str::from_utf8(digest).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: &str, head: &ChainHead) -> (Vec<u8>, ChainHead) {
        let mut line = json.as_bytes().to_vec();
        let head = close(&mut line, head);
        (line, head)
    }

    #[test]
    fn a_line_has_its_position_and_is_checked_alone() {
        let (one, head) = line(r#"{"a":1}"#, &ChainHead::start());
        let (two, next) = line(r#"{"a":",\"sequence\":9"}"#, &head);
        let link = Link::of(&two).unwrap();
        assert_eq!((link.sequence, link.previous, link.head()), (2, head.digest.as_str(), next));
        assert!(link.holds() && Link::of(&one).unwrap().holds());
        assert!(one.len() - r#"{"a":1"#.len() <= TRAILER_MAX);
        let value: serde_json::Value = serde_json::from_slice(&two).unwrap();
        assert_eq!((&value["sequence"], &value["digest"]), (&2.into(), &head_digest(&two).into()));
    }

    /// Computes the digest as the documentation describes.
    fn head_digest(line: &[u8]) -> String {
        let text = std::str::from_utf8(line).unwrap();
        runtime::digest(text.rsplit_once(",\"digest\":").unwrap().0.as_bytes())
    }

    #[test]
    fn changing_any_byte_of_a_line_is_detected() {
        let (good, head) = line(r#"{"a":1}"#, &ChainHead::start());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let same = Link::of(&bad).is_some_and(|link| {
                link.holds()
                    && link.head() == head
                    && serde_json::from_slice::<serde_json::Value>(&bad).is_ok()
            });
            assert!(!same, "byte {at}: {}", String::from_utf8_lossy(&bad));
        }
        for cut in 0..good.len() {
            assert!(Link::of(&good[..cut]).is_none(), "{cut}");
        }
    }

    #[test]
    fn an_anchor_has_the_end_of_the_line_it_replaces() {
        let (one, head) = line(r#"{"a":1}"#, &ChainHead::start());
        let anchor = anchor(&Link::of(&one).unwrap());
        let anchor = anchor.strip_suffix(b"\n").unwrap();
        assert!(is_anchor(anchor) && !is_anchor(&one));
        assert_eq!(Link::of(anchor).unwrap().head(), head);
    }
}
