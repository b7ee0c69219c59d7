//! Numbers in arguments.

use std::str::FromStr;

/// Parses a whole number. The messages of the standard library are for programmers.
pub(crate) fn whole_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "not a whole number".to_owned())
}
