//! Reads a shell command that starts one program with literal words, and nothing else.
//!
//! `shell_words` reads any text as well as possible. This parser is for callers that run something
//! else instead of the command: it accepts only text that means the same in every POSIX shell, and
//! refuses variables, substitutions, patterns, redirections, assignments and lists.

/// One program and its arguments, after an optional `cd DIR &&`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The folder of `cd`.
    pub folder: Option<String>,
    /// The words without their quotes, at least one.
    pub words: Vec<String>,
}

/// Parses a command. `home` replaces a leading `~`. Returns `None` if the text is anything else.
pub fn parse_simple_command(text: &str, home: &str) -> Option<SimpleCommand> {
    let mut words = Vec::new();
    let mut folder = None;
    for token in tokens(text.trim_matches([' ', '\t', '\n']), home)? {
        match token {
            Token::Word(word) => words.push(word),
            // `cd -` and options of `cd` depend on the shell's state.
            Token::And => match (words.as_slice(), &folder) {
                ([cd, target], None) if cd == "cd" && !target.starts_with('-') => {
                    folder = words.pop();
                    words.clear();
                }
                _ => return None,
            },
        }
    }
    // `NAME=value` is an assignment.
    let is_command = words.first().is_some_and(|first| !first.is_empty() && !first.contains('='));
    is_command.then_some(SimpleCommand { folder, words })
}

/// Quotes a word so that a POSIX shell reads exactly this word.
pub fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%,:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

enum Token {
    Word(String),
    /// `&&`.
    And,
}

/// Splits a text; `None` if it has anything but literal words and `&&`.
fn tokens(text: &str, home: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut chars = text.chars().peekable();
    let mut word: Option<String> = None;
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => found.extend(word.take().map(Token::Word)),
            '&' => {
                chars.next_if_eq(&'&')?;
                found.extend(word.take().map(Token::Word));
                found.push(Token::And);
            }
            '\'' => single_quoted(&mut chars, word.get_or_insert_default())?,
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().filter(|c| is_text(*c) && *c != '\n')?;
                word.get_or_insert_default().push(next);
            }
            '~' if word.is_none() && chars.peek().is_none_or(|c| matches!(c, '/' | ' ' | '\t')) => {
                word = Some(home.to_owned());
            }
            c if c.is_alphanumeric() || "_-./:=,+@%".contains(c) => {
                word.get_or_insert_default().push(c);
            }
            _ => return None,
        }
    }
    found.extend(word.map(Token::Word));
    Some(found)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Reads the rest of a single-quoted string.
fn single_quoted(chars: &mut Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '\'' => return Some(()),
            c if is_text(c) => word.push(c),
            _ => return None,
        }
    }
}

/// Reads the rest of a double-quoted string.
fn double_quoted(chars: &mut Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => match chars.next()? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                // The backslash stays; before a line end it would join lines.
                c if is_text(c) && c != '\n' => word.extend(['\\', c]),
                _ => return None,
            },
            // `!` starts a history expansion in interactive shells.
            '$' | '`' | '!' => return None,
            c if is_text(c) => word.push(c),
            _ => return None,
        }
    }
}

fn is_text(c: char) -> bool {
    !c.is_control() || matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(Option<String>, Vec<String>)> {
        parse_simple_command(text, "/home/ada").map(|command| (command.folder, command.words))
    }

    #[test]
    fn literal_words_are_read_exactly() {
        for (text, expected) in [
            ("python3 a/b.py", vec!["python3", "a/b.py"]),
            ("  ./x.sh\t-v \n", vec!["./x.sh", "-v"]),
            (r#"a 'b c' "d 'e'" f\ g 'h'"i"j ''"#, vec!["a", "b c", "d 'e'", "f g", "hij", ""]),
            (r#"a "b\"c\\d\$e\nf""#, vec!["a", r#"b"c\d$e\nf"#]),
            ("a '$x `y` *' 'z\nw'", vec!["a", "$x `y` *", "z\nw"]),
            ("~/x.sh ~ a~b", vec![]),
            ("~/x.sh ~", vec!["/home/ada/x.sh", "/home/ada"]),
            ("a --x=1 é", vec!["a", "--x=1", "é"]),
        ] {
            let words = parsed(text).map(|(_, words)| words).unwrap_or_default();
            assert_eq!(words, expected, "{text}");
        }
    }

    #[test]
    fn one_change_of_folder_may_precede() {
        let both = (Some("a b".to_owned()), vec!["./x".to_owned(), "y".to_owned()]);
        assert_eq!(parsed("cd 'a b' && ./x y"), Some(both.clone()));
        assert_eq!(parsed("cd 'a b'&&./x y"), Some(both));
        for text in ["cd - && x", "cd a b && x", "cd a && cd b && x", "x && y", "cd a &&", "&& x"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            " ",
            "''",
            "a; b",
            "a | b",
            "a & b",
            "a &",
            "a || b",
            "a > b",
            "a < b",
            "a 2>&1",
            "a $b",
            "a \"$b\"",
            "a `b`",
            "a $(b)",
            "a *",
            "a ?",
            "a [b]",
            "a {b,c}",
            "(a)",
            "{ a",
            "! a",
            "a # b",
            "A=1 b",
            "a=b",
            "a \\\nb",
            "a\nb",
            "a 'b",
            "a \"b",
            "a \\",
            "a ~b",
            "a \"b!c\"",
            "a \u{7}",
            "a '\u{1b}'",
            "a\rb",
            "a $'b'",
            "a \"b\\\nc\"",
        ] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        for word in ["a", "", "a b", "it's", "$x", "-x", "a\nb", "é", "~", "a=b", "*", "\\", "!"] {
            let text = format!("x {}", quote_word(word));
            assert_eq!(parsed(&text).unwrap().1[1], word, "{text}");
        }
    }
}
