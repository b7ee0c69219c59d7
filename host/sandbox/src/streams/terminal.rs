//! What a guest's output may do to a terminal: text, and its colours and styles. It moves no cursor
//! back over what the host wrote, hides no text that comes later, and leaves no sequence open for
//! the host's own text to fall into.

/// Written before the host's own text: ends a string that is open (OSC, DCS), and every colour and
/// style.
pub const RESET: &str = "\u{1b}\\\u{1b}[0m";

/// Passes the output of one stream, whose pieces may end anywhere. A sequence comes out whole or
/// not at all.
#[derive(Debug, Default)]
pub struct Filter {
    state: State,
    /// The start of a character, or of a sequence, that is not complete.
    held: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
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
/// They end any sequence.
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
/// The parameters with a colon that pass.
const UNDERLINES: [&str; 6] = ["4:0", "4:1", "4:2", "4:3", "4:4", "4:5"];
/// A longer sequence is none of colour and style.
const LONGEST: usize = 64;

impl Filter {
    /// Appends to `out` what of `bytes` a terminal may be shown.
    pub fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            self.byte(byte, out);
        }
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text => self.text(byte, out),
            _ if matches!(byte, CANCEL | SUBSTITUTE) => self.go(State::Text),
            State::Escape => match byte {
                b'[' => self.go(State::Control),
                b']' | b'P' | b'X' | b'^' | b'_' => self.go(State::String),
                ESCAPE | 0x20..=0x2f => {}
                _ => self.go(State::Text),
            },
            State::Control => match byte {
                ESCAPE => self.go(State::Escape),
                0x40..=0x7e => {
                    if byte == b'm'
                        && let Some(style) = style(&self.held)
                    {
                        out.extend_from_slice(style.as_bytes());
                    }
                    self.go(State::Text);
                }
                // One byte too many marks it as too long.
                _ if self.held.len() <= LONGEST => self.held.push(byte),
                _ => {}
            },
            State::String => match byte {
                0x07 => self.go(State::Text),
                ESCAPE => self.go(State::StringEscape),
                _ => {}
            },
            State::StringEscape => {
                self.go(State::Escape);
                if byte != b'\\' {
                    return self.byte(byte, out);
                }
                self.go(State::Text);
            }
        }
    }

    fn go(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        if byte.is_ascii() {
            self.broken(out);
            match byte {
                ESCAPE => self.state = State::Escape,
                b'\n' | b'\r' | b'\t' | 0x20..=0x7e => out.push(byte),
                _ => {}
            }
            return;
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            // The controls of 8 bits, as characters: some terminals act on them. Bidirectional
            // controls would reorder what the host prints after them.
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
                // It may start a character itself.
                match byte {
                    0xc2..=0xf4 => self.held.push(byte),
                    _ => out.extend_from_slice("\u{fffd}".as_bytes()),
                }
            }
            Err(_) => {}
        }
    }

    /// What is held is the start of a character that does not go on.
    fn broken(&mut self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            self.held.clear();
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// The sequence of these parameters without what conceals; `None` where nothing is left, or they
/// are not those of colours and styles.
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
        // An empty one means 0.
        let number: u32 = parameter
            .split(':')
            .next()
            .filter(|first| !first.is_empty())
            .map_or(Some(0), |first| first.parse().ok())?;
        match number {
            8 => {}
            // Some terminals read a colon as a semicolon: only kinds of underline pass, in which
            // nothing conceals.
            _ if parameter.contains(':') => {
                kept.extend(Some(parameter).filter(|kind| UNDERLINES.contains(kind)))
            }
            // A colour of several parameters: an 8 in it is no style.
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
    fn what_hides_moves_or_stays_open_does_not_pass() {
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
            "bytes that are no characters"
        );
        assert_eq!(passed(&[b"\xe2\x82", b"x"]), "\u{fffd}x");
        let long = format!("a\u{1b}[{}mb", "1;".repeat(100));
        assert_eq!(passed(&[long.as_bytes()]), "ab");
    }

    proptest! {
        /// Whatever comes, in whatever pieces: the only sequences are those of colours and styles,
        /// whole, and none conceals.
        #[test]
        fn only_styles_come_out(pieces in prop::collection::vec(prop::collection::vec(prop_oneof![
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
