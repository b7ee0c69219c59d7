//! The chain: each line of the log ends with its number, the digest of the line before, and its
//! own.
//!
//! ```text
//! {"version":2, ... ,"sequence":17,"previous":"sha256:...","digest":"sha256:..."}
//! ```
//!
//! `digest` is over all bytes of the line before `,"digest":`. So a line can be checked alone, and
//! its place by the one before.

use skillhost_skill::runtime;

/// A place in the chain.
#[derive(
    Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct ChainHead {
    /// The record's number, from 1.
    pub sequence: u64,
    /// Its digest.
    pub digest: String,
}

/// The end of a line, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link<'a> {
    pub(super) sequence: u64,
    pub(super) previous: &'a str,
    pub(super) digest: &'a str,
    /// What the digest is over.
    pub(super) content: &'a [u8],
}

/// Bytes that the end of a line takes at most: the three names, a number of 20 digits, two digests.
pub(super) const TRAILER_MAX: usize = 256;
/// Bytes at the end of a journal in which its last record is looked for first: more than that of a
/// run which started no programs.
pub(super) const LINE: usize = 4 << 10;
/// Those in which it is looked for next.
pub(super) const LINE_MAX: usize = 16 << 10;

/// How the first line of a journal starts that goes on where another was sealed: its end is that of
/// the last line there.
const ANCHOR: &[u8] = br#"{"version":2,"anchor":true,"#;

const SEQUENCE: &str = ",\"sequence\":";
const PREVIOUS: &str = ",\"previous\":\"sha256:";
const DIGEST: &str = ",\"digest\":\"sha256:";
const HEX: usize = 64;

impl ChainHead {
    /// What the first record follows.
    pub fn start() -> ChainHead {
        ChainHead { sequence: 0, digest: format!("sha256:{}", "0".repeat(HEX)) }
    }
}

/// Ends a JSON object as the line that follows `head`; gives back the new head.
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

/// The line that a journal starts with, after `last`.
pub(super) fn anchor(last: &Link<'_>) -> Vec<u8> {
    let mut line = ANCHOR[..ANCHOR.len() - 1].to_vec();
    let Link { sequence, previous, digest, .. } = last;
    line.extend_from_slice(
        format!("{SEQUENCE}{sequence},\"previous\":\"{previous}\",\"digest\":\"{digest}\"}}\n")
            .as_bytes(),
    );
    line
}

/// Whether a line is an [`anchor`].
pub(super) fn is_anchor(line: &[u8]) -> bool {
    line.starts_with(ANCHOR)
}

/// The record at the end of lines whose last newline is gone: one whose digest is that of its
/// content, or the anchor that a journal starts with.
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
    /// The end of a line, which is without its newline; `None` where it has no such end.
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

    /// Whether the line is what it was when it was written, as far as it alone tells.
    pub(super) fn holds(&self) -> bool {
        runtime::digest(self.content) == self.digest
    }

    pub(super) fn head(&self) -> ChainHead {
        ChainHead { sequence: self.sequence, digest: self.digest.to_owned() }
    }
}

/// What stands before a name at the end, and the digest after it.
fn split<'a>(text: &'a [u8], name: &str) -> Option<(&'a [u8], &'a str)> {
    let (rest, hex) = text.split_at_checked(text.len().checked_sub(HEX)?)?;
    let valid = hex.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let content = rest.strip_suffix(name.as_bytes()).filter(|_| valid)?;
    // With the name of the algorithm, which stands just before.
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
    fn a_line_says_where_it_stands_and_is_checked_alone() {
        let (one, head) = line(r#"{"a":1}"#, &ChainHead::start());
        let (two, next) = line(r#"{"a":",\"sequence\":9"}"#, &head);
        let link = Link::of(&two).unwrap();
        assert_eq!((link.sequence, link.previous, link.head()), (2, head.digest.as_str(), next));
        assert!(link.holds() && Link::of(&one).unwrap().holds());
        assert!(one.len() - r#"{"a":1"#.len() <= TRAILER_MAX);
        let value: serde_json::Value = serde_json::from_slice(&two).unwrap();
        assert_eq!((&value["sequence"], &value["digest"]), (&2.into(), &head_digest(&two).into()));
    }

    /// As the documentation says to compute it.
    fn head_digest(line: &[u8]) -> String {
        let text = std::str::from_utf8(line).unwrap();
        runtime::digest(text.rsplit_once(",\"digest\":").unwrap().0.as_bytes())
    }

    #[test]
    fn no_byte_of_a_line_can_be_another() {
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
    fn an_anchor_ends_like_the_line_that_it_stands_for() {
        let (one, head) = line(r#"{"a":1}"#, &ChainHead::start());
        let anchor = anchor(&Link::of(&one).unwrap());
        let anchor = anchor.strip_suffix(b"\n").unwrap();
        assert!(is_anchor(anchor) && !is_anchor(&one));
        assert_eq!(Link::of(anchor).unwrap().head(), head);
    }
}
