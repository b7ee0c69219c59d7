//! Regular expressions of schemas, matched in time that is linear in the text and known in advance.

use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;

use super::{Budget, EvaluationError, quote};

/// The longest pattern, in bytes.
const PATTERN_MAX: usize = 512;
/// The largest automaton of a pattern, in bytes.
const AUTOMATON_MAX: usize = 128 << 10;
/// The deepest nesting of groups in a pattern.
const NEST_MAX: u32 = 50;
/// The steps charged for compiling a pattern.
const COMPILE: u64 = 2_000;
/// The steps charged for compiling a pattern that uses Unicode classes or flags, which expand to
/// many ranges.
const COMPILE_SLOWLY: u64 = 50_000;
/// The states that an automaton visits in the time of one step.
const STATES_IN_A_STEP: u64 = 8;
/// The most steps of one match, which cannot be interrupted: a fraction of a second.
const MATCH_MAX: u64 = 2_000_000;

/// A compiled pattern.
pub(super) struct Pattern {
    automaton: PikeVM,
    cache: std::cell::RefCell<Cache>,
}

impl Pattern {
    pub(super) fn compile(
        pattern: &str,
        budget: &mut Budget<'_>,
    ) -> Result<Pattern, EvaluationError> {
        if pattern.len() > PATTERN_MAX {
            return Err(EvaluationError::Refused(format!(
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
                EvaluationError::Refused(format!(
                    "the pattern {} is not supported: {}",
                    quote(pattern),
                    quote(&why)
                ))
            })?;
        let cache = automaton.create_cache().into();
        Ok(Pattern { automaton, cache })
    }

    /// Checks whether the pattern matches anywhere in a text.
    pub(super) fn matches(
        &self,
        text: &str,
        budget: &mut Budget<'_>,
    ) -> Result<bool, EvaluationError> {
        let states = self.automaton.get_nfa().states().len() as u64;
        let steps = states.saturating_mul(text.len() as u64 + 1) / STATES_IN_A_STEP + 1;
        if steps > MATCH_MAX {
            return Err(EvaluationError::OutOfSteps);
        }
        budget.charge(steps)?;
        Ok(self.automaton.is_match(&mut self.cache.borrow_mut(), text))
    }
}

/// Translates a pattern from ECMA-262, the syntax of schemas, to that of the engine: `\d` and `\w`
/// are ASCII, and within a class `[`, `&` and `~` are literal characters.
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
    fn patterns_follow_ecmascript() {
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
    fn lookaround_and_huge_patterns_are_refused() {
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
            assert!(matches!(refused, Err(EvaluationError::Refused(_))), "{pattern}: {refused:?}");
        }
    }

    #[test]
    fn pattern_matching_is_charged_in_advance() {
        let mut budget = Budget::quick();
        let pattern = Pattern::compile("(a*)*b", &mut budget).unwrap();
        assert_eq!(
            pattern.matches(&"a".repeat(100_000), &mut budget),
            Err(EvaluationError::OutOfSteps)
        );
    }
}
