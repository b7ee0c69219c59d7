//! Formats Rust. The syntax tree has no comments except documentation, so a file with other
//! comments is refused instead of losing them.

/// Formats a text.
///
/// # Errors
/// Returns an error if the text does not parse or has comments that would be lost.
pub fn format(text: &str) -> Result<String, String> {
    if let Some(line) = comment(text) {
        return Err(format!(
            "line {line} has a comment other than documentation, which would be lost: use rustfmt"
        ));
    }
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    Ok(prettyplease::unparse(&file))
}

/// Returns the line of the first comment that is not documentation.
fn comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let starts = |at: usize, what: &str| text.as_bytes()[at..].starts_with(what.as_bytes());
    let line = |at: usize| text[..text.floor_char_boundary(at)].matches('\n').count() + 1;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if starts(at, "//") => {
                let documentation = starts(at, "//!") || (starts(at, "///") && !starts(at, "////"));
                if !documentation {
                    return Some(line(at));
                }
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
            b'/' if starts(at, "/*") => {
                let documentation = starts(at, "/*!")
                    || (starts(at, "/**") && !starts(at, "/***") && !starts(at, "/**/"));
                if !documentation {
                    return Some(line(at));
                }
                at = block_end(bytes, at);
            }
            b'"' => at = string_end(bytes, at),
            b'r' if !in_word(bytes, at) => at = raw_end(text, at).unwrap_or(at + 1),
            b'b' | b'c' if starts(at + 1, "r") && !in_word(bytes, at) => {
                at = raw_end(text, at + 1).unwrap_or(at + 1)
            }
            b'\'' => at = char_end(text, at),
            _ => at += 1,
        }
    }
    None
}

/// Returns the end of a block comment, which may contain others.
fn block_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Returns the end of a raw string that starts at this `r`, if one does.
fn raw_end(text: &str, start: usize) -> Option<usize> {
    let rest = &text[start + 1..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |found| found + end.len());
    Some(start + 1 + hashes + 1 + length)
}

/// Returns the end of a character literal, or of the quote of a lifetime.
fn char_end(text: &str, start: usize) -> usize {
    let rest = &text[start + 1..];
    let mut chars = rest.chars();
    let length = match (chars.next(), chars.next()) {
        (Some('\\'), Some(escaped)) => {
            let after = 1 + escaped.len_utf8();
            after + rest[after..].find('\'').map_or(0, |end| end + 1)
        }
        (Some(one), Some('\'')) => one.len_utf8() + 1,
        _ => 0,
    };
    start + 1 + length
}

fn in_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_distinguished_from_literals() {
        for (text, line) in [
            ("fn a() {} // one", Some(1)),
            ("\n/* two */ fn a() {}", Some(2)),
            ("//// four slashes", Some(1)),
            ("/**/ fn a() {}", Some(1)),
            ("let c = '\"'; // x", Some(1)),
            ("let c = b'\\''; // x", Some(1)),
            ("fn f<'a>(x: &'a str) {} // x", Some(1)),
            ("/// d\n//! e\n/** f /* g */ h */ fn a() {}", None),
            ("let s = \"// \\\" /* \";", None),
            ("let s = r#\"// \" /*\"#; let t = br\"//\"; let u = cr##\"//\"#\"##;", None),
            ("let var\"x\" = 1;", None),
            ("let c = '/'; let d = '\\u{2f}';", None),
            ("\"unclosed // ", None),
            ("'", None),
            ("é // x", Some(1)),
        ] {
            assert_eq!(comment(text), line, "{text}");
        }
        assert!(format("fn a() {}\n// lost").unwrap_err().contains("line 2"));
    }
}
