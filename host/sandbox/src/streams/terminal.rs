//! Filters a guest's output for a terminal: text, colours and styles pass. Output cannot move the
//! cursor over the host's text, hide later text, or leave a sequence open that would swallow the
//! host's text.

/// To be written before the host's own text: ends open strings (OSC, DCS), colours and styles.
pub const RESET: &str = "\u{1b}\\\u{1b}[0m";

/// Filters the output of one stream, which may be split anywhere. A sequence is passed complete or
/// not at all.
#[derive(Debug, Default)]
pub struct Filter {
    state: FilterState,
    /// The incomplete start of a character or a sequence.
    held: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum FilterState {
    #[default]
    Text,
    /// After ESC, or after its intermediate bytes.
    Escape,
    /// In a control sequence, `ESC [`.
    Control,
    /// In a string (OSC, DCS, APC, PM, SOS), which is not shown.
    String,
    /// After ESC in a string.
    StringEscape,
}

const ESCAPE: u8 = 0x1b;
/// These bytes end any sequence.
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
/// The only parameters with a colon that pass.
const UNDERLINES: [&str; 6] = ["4:0", "4:1", "4:2", "4:3", "4:4", "4:5"];
/// Longer sequences are not colours or styles.
const LONGEST: usize = 64;

impl Filter {
    /// Appends to `out` those of `bytes` that may be shown.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            self.byte(byte, out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            FilterState::Text => self.text(byte, out),
            _ if matches!(byte, CANCEL | SUBSTITUTE) => self.go(FilterState::Text),
            FilterState::Escape => match byte {
                b'[' => self.go(FilterState::Control),
                b']' | b'P' | b'X' | b'^' | b'_' => self.go(FilterState::String),
                ESCAPE | 0x20..=0x2f => {}
                _ => self.go(FilterState::Text),
            },
            FilterState::Control => match byte {
                ESCAPE => self.go(FilterState::Escape),
                0x40..=0x7e => {
                    if byte == b'm'
                        && let Some(style) = style(&self.held)
                    {
                        out.extend_from_slice(style.as_bytes());
                    }
                    self.go(FilterState::Text);
                }
                // One more byte than allowed marks it as too long.
                _ if self.held.len() <= LONGEST => self.held.push(byte),
                _ => {}
            },
            FilterState::String => match byte {
                0x07 => self.go(FilterState::Text),
                ESCAPE => self.go(FilterState::StringEscape),
                _ => {}
            },
            FilterState::StringEscape => {
                self.go(FilterState::Escape);
                if byte != b'\\' {
                    return self.byte(byte, out);
                }
                self.go(FilterState::Text);
            }
        }
    }

    fn go(&mut self, state: FilterState) {
        self.state = state;
        self.held.clear();
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte.is_ascii() {
            self.broken(out);
            match byte {
                ESCAPE => self.state = FilterState::Escape,
                b'\n' | b'\r' | b'\t' | 0x20..=0x7e => out.push(byte),
                _ => {}
            }
            return;
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            // 8-bit control characters: some terminals obey them. Bidirectional controls would
            // reorder later text of the host.
            Ok(text) => {
                let is_dropped = |c: char| {
                    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                };
                out.extend_from_slice(if text.chars().any(is_dropped) {
                    b""
                } else {
                    text.as_bytes()
                });
                self.held.clear();
            }
            Err(error) if error.error_len().is_some() => {
                self.held.pop();
                self.broken(out);
                // The byte may start a character.
                match byte {
                    0xc2..=0xf4 => self.held.push(byte),
                    _ => out.extend_from_slice("\u{fffd}".as_bytes()),
                }
            }
            Err(_) => {}
        }
    }

    /// Replaces the start of a character that is not continued.
    fn broken(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.held.clear();
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Returns the sequence with these parameters, without those that conceal text. Returns `None` if
/// none are left, or if they are not colours or styles.
fn style(parameters: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(parameters).ok()?;
    if parameters.len() > LONGEST
        || !parameters.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':'))
    {
        return None;
    }
    if text.is_empty() {
        return Some("\u{1b}[m".into());
    }
    let mut kept = Vec::new();
    let mut rest = text.split(';');
    while let Some(parameter) = rest.next() {
        // An empty parameter means 0.
        let number: u32 = parameter
            .split(':')
            .next()
            .filter(|first| !first.is_empty())
            .map_or(Some(0), |first| first.parse().ok())?;
        match number {
            8 => {}
            // Some terminals read a colon as a semicolon: only kinds of underlines pass, which
            // never conceal.
            _ if parameter.contains(':') => {
                kept.extend(Some(parameter).filter(|kind| UNDERLINES.contains(kind)))
            }
            // A colour with several parameters: an 8 in it does not conceal.
            38 | 48 | 58 => {
                let kind = rest.next()?;
                let count = match kind.parse::<u32>().ok()? {
                    5 => 1,
                    2 => 3,
                    _ => return None,
                };
                kept.extend([parameter, kind]);
                for _ in 0..count {
                    kept.push(rest.next().filter(|value| !value.contains(':'))?);
                }
            }
            _ => kept.push(parameter),
        }
    }
    if kept.is_empty() { None } else { Some(format!("\u{1b}[{}m", kept.join(";"))) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passed(pieces: &[&[u8]]) -> String {
        let mut filter = Filter::default();
        let mut out = Vec::new();
        pieces.iter().for_each(|piece| filter.pass(piece, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_colours_and_styles_pass() {
        for text in [
            "plain\r\n\ttext",
            "\u{1b}[1;31mred\u{1b}[0m",
            "\u{1b}[38;5;8mgrey\u{1b}[m",
            "\u{1b}[48;2;8;8;8mx",
            "üñ€😀",
            "\u{1b}[4:3mx",
        ] {
            assert_eq!(passed(&[text.as_bytes()]), text, "{text:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(passed(&bytes), text, "byte by byte");
        }
    }

    #[test]
    fn other_sequences_do_not_pass() {
        for (text, shown) in [
            ("a\u{1b}[8mb", "ab"),
            ("a\u{1b}[08mb", "ab"),
            ("a\u{1b}[1;8;31mb", "a\u{1b}[1;31mb"),
            ("a\u{1b}[8:1mb", "ab"),
            ("a\u{1b}[38;8mb", "ab"),
            ("a\u{1b}[1:8mb\u{1b}[38:2::8:8:8mc", "abc"),
            ("a\u{1b}[2Jb\u{1b}[Hc\u{1b}[1Ad", "abcd"),
            ("a\u{1b}[?1049hb", "ab"),
            ("a\u{1b}[>4;2mb", "ab"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("a\u{1b}]0;never ended", "a"),
            ("a\u{1b}Pq#0\u{1b}\\b", "ab"),
            ("a\u{1b}cb\u{1b}7c\u{1b}(0d", "abcd"),
            ("a\u{8}\u{7}\u{b}\u{7f}b", "ab"),
            ("a\u{9b}8mb\u{9d}c", "a8mbc"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[31", "a"),
            ("a\u{1b}]x\u{18}b", "ab"),
            ("a\u{1b}]x\u{1b}[31mb", "a\u{1b}[31mb"),
        ] {
            assert_eq!(passed(&[text.as_bytes()]), shown, "{text:?}");
        }
        assert_eq!(
            passed(&[b"a\x9b8mb\xff\xc3"]),
            "a\u{fffd}8mb\u{fffd}",
            "bytes that are not characters"
        );
        assert_eq!(passed(&[b"\xe2\x82", b"x"]), "\u{fffd}x");
        let long = format!("a\u{1b}[{}mb", "1;".repeat(100));
        assert_eq!(passed(&[long.as_bytes()]), "ab");
    }

    proptest! {
        /// For any input, in any pieces: only complete sequences of colours and styles pass, and
        /// none conceals.
        #[test]
        fn only_styles_pass(pieces in prop::collection::vec(prop::collection::vec(prop_oneof![
            Just(b'\x1b'), Just(b'['), Just(b']'), Just(b'm'), Just(b'8'), Just(b';'), Just(0x9b_u8), Just(0xc2_u8), any::<u8>()
        ], 0..40), 0..6)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let shown = passed(&pieces);
            let mut rest = shown.as_str();
            while let Some((before, after)) = rest.split_once('\u{1b}') {
                prop_assert!(before.chars().all(|c| matches!(c, '\n' | '\r' | '\t') || !c.is_control()));
                let (parameters, after) = after.strip_prefix('[').and_then(|after| after.split_once('m')).unwrap();
                prop_assert!(parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')));
                let same = format!("\u{1b}[{parameters}m");
                prop_assert_eq!(style(parameters.as_bytes()), Some(same));
                rest = after;
            }
            prop_assert!(rest.chars().all(|c| matches!(c, '\n' | '\r' | '\t') || !c.is_control()));
        }
    }
}
