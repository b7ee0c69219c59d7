//! Regular expressions of schemas: matched in time that grows with the text alone, and is known
//! beforehand.

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;

use super::{Budget, Stop, quote};

/// Bytes of a pattern.
const PATTERN_MAX: usize = 512;
/// Bytes of a pattern's automaton.
const AUTOMATON_MAX: usize = 128 << 10;
/// Nested groups of a pattern.
const NEST_MAX: u32 = 50;
/// Steps that compiling a pattern counts as.
const COMPILE: u64 = 2_000;
/// The same for one that names Unicode classes or sets flags: these expand to many ranges.
const COMPILE_SLOWLY: u64 = 50_000;
/// States that a matching automaton visits in the time of a step.
const STATES_IN_A_STEP: u64 = 8;
/// Steps of one match, which nothing interrupts: a fraction of a second.
const MATCH_MAX: u64 = 2_000_000;

/// A compiled pattern.
pub(super) struct Pattern {
    automaton: PikeVM,
    cache: std::cell::RefCell<Cache>,
}

impl Pattern {
    pub(super) fn compile(pattern: &str, budget: &mut Budget<'_>) -> Result<Pattern, Stop> {
        if pattern.len() > PATTERN_MAX {
            return Err(Stop::Refused(format!(
                "the pattern {} has more than {PATTERN_MAX} bytes",
                quote(pattern)
            )));
        }
        let is_slow = ["\\p", "\\P", "(?"].iter().any(|part| pattern.contains(part));
        budget.charge(if is_slow { COMPILE_SLOWLY } else { COMPILE })?;
        let automaton = PikeVM::builder()
            .syntax(syntax::Config::new().nest_limit(NEST_MAX))
            .thompson(
                thompson::Config::new()
                    .nfa_size_limit(Some(AUTOMATON_MAX))
                    .which_captures(thompson::WhichCaptures::None),
            )
            .build(&translate(pattern))
            .map_err(|error| {
                let why = error.to_string().lines().last().unwrap_or_default().to_owned();
                Stop::Refused(format!(
                    "the pattern {} is not supported: {}",
                    quote(pattern),
                    quote(&why)
                ))
            })?;
        let cache = automaton.create_cache().into();
        Ok(Pattern { automaton, cache })
    }

    /// Whether it matches anywhere in a text.
    pub(super) fn matches(&self, text: &str, budget: &mut Budget<'_>) -> Result<bool, Stop> {
        let states = self.automaton.get_nfa().states().len() as u64;
        let steps = states.saturating_mul(text.len() as u64 + 1) / STATES_IN_A_STEP + 1;
        if steps > MATCH_MAX {
            return Err(Stop::OutOfSteps);
        }
        budget.charge(steps)?;
        Ok(self.automaton.is_match(&mut self.cache.borrow_mut(), text))
    }
}

/// A pattern of ECMA-262, which schemas are written in, as the engine reads it: `\d` and `\w` are
/// ASCII, and within a class `[`, `&` and `~` are characters.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('w') => out.push_str("[A-Za-z0-9_]"),
                Some('W') => out.push_str("[^A-Za-z0-9_]"),
                Some('b') if in_class => out.push_str("\\x08"),
                Some('b') => out.push_str("(?-u:\\b)"),
                Some('/') => out.push('/'),
                other => out.extend(std::iter::once('\\').chain(other)),
            },
            '[' if !in_class => {
                let negated = chars.next_if_eq(&'^').is_some();
                if chars.next_if_eq(&']').is_some() {
                    out.push_str(if negated { "[\\s\\S]" } else { "[^\\s\\S]" });
                } else {
                    in_class = true;
                    out.push_str(if negated { "[^" } else { "[" });
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', char]),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let mut budget = Budget { steps: 1_000_000, ..Budget::quick() };
        Pattern::compile(pattern, &mut budget).unwrap().matches(text, &mut budget).unwrap()
    }

    #[test]
    fn patterns_mean_what_ecma_says() {
        for (pattern, text) in [
            ("b", "abc"),
            (r"^\d+$", "12"),
            (r"^[\d[&~]+$", "1[&~"),
            ("^[^]$", "\n"),
            (r"\bcat\b", "a cat."),
            (r"^a\/b$", "a/b"),
            (r"^\p{L}+$", "né"),
            (r"^(?:a|b){2,3}$", "aba"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text:?}");
        }
        for (pattern, text) in [(r"^\d$", "٣"), (r"^\w$", "é"), ("[]", "a"), ("^a$", "a\n")] {
            assert!(!matches(pattern, text), "{pattern} {text:?}");
        }
    }

    #[test]
    fn look_around_and_huge_patterns_are_refused() {
        for pattern in [
            "(?=a)",
            r"(a)\1",
            "(((a{100}){100}){100})",
            &"a".repeat(PATTERN_MAX + 1),
            &"(".repeat(100),
            "[",
        ] {
            let mut budget = Budget { steps: 1_000_000, ..Budget::quick() };
            let refused = Pattern::compile(pattern, &mut budget).map(drop);
            assert!(matches!(refused, Err(Stop::Refused(_))), "{pattern}: {refused:?}");
        }
    }

    #[test]
    fn matching_is_charged_before_it_is_done() {
        let mut budget = Budget::quick();
        let pattern = Pattern::compile("(a*)*b", &mut budget).unwrap();
        assert_eq!(pattern.matches(&"a".repeat(100_000), &mut budget), Err(Stop::OutOfSteps));
    }
}
