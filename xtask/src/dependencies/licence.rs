//! Evaluates SPDX licence expressions as they occur in `Cargo.toml`: `MIT OR Apache-2.0`, `(A OR B)
//! AND C`, `A WITH B`. `/` is an old spelling of `OR`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Returns whether the allowed licences satisfy an expression, or `None` if the expression is
/// invalid.
pub(super) fn is_satisfied(expression: &str, allowed: &BTreeSet<&str>) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut tokens = tokens.into_iter().peekable();
    let satisfied = any(&mut tokens, allowed)?;
    tokens.next().is_none().then_some(satisfied)
}

type Tokens<'t> = Peekable<IntoIter<&'t str>>;

fn any(tokens: &mut Tokens<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut satisfied = all(tokens, allowed)?;
    while tokens.next_if_eq(&"OR").is_some() {
        satisfied |= all(tokens, allowed)?;
    }
    Some(satisfied)
}

fn all(tokens: &mut Tokens<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut satisfied = one(tokens, allowed)?;
    while tokens.next_if_eq(&"AND").is_some() {
        satisfied &= one(tokens, allowed)?;
    }
    Some(satisfied)
}

fn one(tokens: &mut Tokens<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    if tokens.next_if_eq(&"(").is_some() {
        let satisfied = any(tokens, allowed)?;
        return tokens.next_if_eq(&")").map(|_| satisfied);
    }
    let is_name = |word: &&str| !matches!(*word, "(" | ")" | "AND" | "OR" | "WITH");
    let name = tokens.next_if(is_name)?;
    if tokens.next_if_eq(&"WITH").is_some() {
        let exception = tokens.next_if(is_name)?;
        return Some(allowed.contains(format!("{name} WITH {exception}").as_str()));
    }
    Some(allowed.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated_and_invalid_ones_rejected() {
        let allowed = BTreeSet::from(["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]);
        for (expression, satisfied) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("MIT AND Apache-2.0", Some(true)),
            // AND binds more tightly than OR.
            ("MIT OR GPL-3.0 AND ISC", Some(true)),
            ("(MIT OR GPL-3.0) AND ISC", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("MIT WITH LLVM-exception", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT Apache-2.0", None),
            ("MIT)", None),
        ] {
            assert_eq!(is_satisfied(expression, &allowed), satisfied, "{expression}");
        }
    }
}
