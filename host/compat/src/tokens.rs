//! The tokens of a script, in Python or JavaScript.

use std::ops::Range;

/// A token. Comments are not tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    /// The byte range in the text.
    pub(super) at: Range<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// An identifier or keyword.
    Name(&'a str),
    /// A string literal.
    Text {
        /// The range between the quotes.
        inner: Range<usize>,
        /// Whether it has a part that is computed: a field of an f-string or t-string in Python, or a
        /// `${value}` in JavaScript.
        computed: bool,
    },
    /// One character of an operator.
    Op(u8),
    /// A number, a regular expression, or an invalid character.
    Other,
}

impl Token<'_> {
    pub(super) fn is_op(&self, op: u8) -> bool {
        self.kind == Kind::Op(op)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        self.kind == Kind::Name(name)
    }
}
