//! Licence expressions of SPDX, as `Cargo.toml` has them: `MIT OR Apache-2.0`, `(A OR B) AND C`,
//! `A WITH B`; `/` is an old `OR`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Whether an expression is satisfied by the licences that are allowed; `None` where it is not an
/// expression.
pub(super) fn is_satisfied(expression: &str, allowed: &BTreeSet<&str>) -> Option<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.into_iter().peekable();
    let satisfied = any(&mut words, allowed)?;
    words.next().is_none().then_some(satisfied)
}

type Words<'t> = Peekable<IntoIter<&'t str>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut satisfied = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all(words, allowed)?;
    }
    Some(satisfied)
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut satisfied = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= one(words, allowed)?;
    }
    Some(satisfied)
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    if words.next_if_eq(&"(").is_some() {
        let satisfied = any(words, allowed)?;
        return words.next_if_eq(&")").map(|_| satisfied);
    }
    let is_name = |word: &&str| !matches!(*word, "(" | ")" | "AND" | "OR" | "WITH");
    let name = words.next_if(is_name)?;
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next_if(is_name)?;
        return Some(allowed.contains(format!("{name} WITH {exception}").as_str()));
    }
    Some(allowed.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_needs_what_it_names() {
        let allowed = BTreeSet::from(["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]);
        for (expression, satisfied) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("MIT AND Apache-2.0", Some(true)),
            // AND comes before OR.
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
