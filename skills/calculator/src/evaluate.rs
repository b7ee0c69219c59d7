//! Expressions, units and conversions, evaluated by fend: exact rational numbers, rounded only when
//! printed.

use std::sync::atomic::{AtomicU32, Ordering};

use fend_core::{Context, FendResult, Interrupt, SpanKind};

use crate::answer::Answer;
use crate::decimal;

/// Limits of an expression in bytes and tokens. fend recurses over tokens, and a guest's stack has
/// 1 MiB.
const MAX_LENGTH: usize = 4000;
const MAX_TOKENS: usize = 150;
/// The limit of nested parentheses, each of which needs many calls.
const MAX_NESTING: usize = 20;
/// How often fend may ask whether to continue. Usual calculations take some thousand steps; a
/// number too large to print takes all of them.
const MAX_STEPS: u32 = 50_000;
/// The reliable decimal places of functions such as `sin` and `ln`.
const INEXACT_PLACES: u32 = 15;
/// The maximum decimal places of exact results.
const EXACT_PLACES: u32 = 100;

/// Evaluates an expression. `precision` is the number of decimal places.
///
/// # Errors
/// Returns the problem with the expression, or that it takes too much work.
pub fn evaluate(expression: &str, precision: Option<u32>) -> Result<Answer, String> {
    let (expression, precision) = match requested_places(expression) {
        Some((rest, places)) => (rest, precision.or(Some(places))),
        None => (expression, precision),
    };
    check(expression)?;
    let answer = describe(&run(expression)?)?;
    let Some(number) = &answer.number else { return Ok(answer) };
    let limit = if answer.exact { EXACT_PLACES } else { INEXACT_PLACES };
    if precision.is_some_and(|places| places > limit) {
        return Err(format!("at most {limit} decimal places are supported"));
    }
    if answer.exact && !number.contains('.') && precision.is_none() {
        return Ok(answer);
    }
    let fraction = describe(&run(&format!("({expression}) to fraction"))?)?;
    let rounded =
        fraction.number.as_deref().and_then(|text| decimal::from_fraction(text, precision));
    Ok(match rounded {
        Some((number, whole)) => {
            let glue = if fraction.unit.as_deref() == Some("%") { "" } else { " " };
            let result = fraction
                .unit
                .as_ref()
                .map_or(number.clone(), |unit| format!("{number}{glue}{unit}"));
            Answer {
                result,
                exact: fraction.exact && whole,
                number: Some(number),
                unit: fraction.unit,
                weekday: None,
            }
        }
        None => answer,
    })
}

/// Splits off `... to 3 dp`, fend's syntax for decimal places.
fn requested_places(expression: &str) -> Option<(&str, u32)> {
    let rest = expression.trim_end();
    let rest = rest.strip_suffix("dp").or_else(|| rest.strip_suffix("decimal places"))?.trim_end();
    let (rest, places) = rest.rsplit_once(' ')?;
    let rest = rest.strip_suffix(" to").or_else(|| rest.strip_suffix(" in"))?;
    Some((rest, places.parse().ok()?))
}

fn check(expression: &str) -> Result<(), String> {
    if expression.trim().is_empty() {
        return Err("the expression is empty".to_owned());
    }
    if expression.len() > MAX_LENGTH {
        return Err(format!("the expression is longer than {MAX_LENGTH} bytes"));
    }
    let mut depth = 0usize;
    for c in expression.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(format!("parentheses are nested deeper than {MAX_NESTING} levels"));
        }
    }
    if tokens(expression) > MAX_TOKENS {
        return Err(format!(
            "the expression has more than {MAX_TOKENS} numbers, names and operators"
        ));
    }
    check_commas(expression)
}

fn tokens(expression: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '.' | ',' | '_');
    let mut count = 0;
    let mut in_word = false;
    for c in expression.chars() {
        let inside = c.is_whitespace() || (in_word && is_word(c));
        if !inside {
            count += 1;
        }
        in_word = is_word(c);
    }
    count
}

/// Refuses commas that do not separate thousands. fend ignores all commas in numbers: `max(1,2)`
/// would be `max(12)`.
fn check_commas(expression: &str) -> Result<(), String> {
    let mut parts = expression.split(',').peekable();
    while let (Some(before), Some(after)) = (parts.next(), parts.peek()) {
        let head = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let tail = after.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=3).contains(&head) || tail != 3 {
            return Err(
                "a comma may only separate thousands, as in 1,000,000; functions take one argument"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn run(expression: &str) -> Result<FendResult, String> {
    let steps = Steps(AtomicU32::new(0));
    fend_core::evaluate_with_interrupt(expression, &mut Context::new(), &steps).map_err(|error| {
        match error.as_str() {
            "interrupted" => {
                "too much work: the result or an intermediate number is too large".to_owned()
            }
            "exchange rates are not available" => {
                "currencies are not supported: no exchange rates are available".to_owned()
            }
            _ => error,
        }
    })
}

struct Steps(AtomicU32);

impl Interrupt for Steps {
    fn should_interrupt(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= MAX_STEPS
    }
}

fn describe(found: &FendResult) -> Result<Answer, String> {
    let text = found.get_main_result();
    let (exact, result) = match text.strip_prefix("approx. ") {
        Some(rest) => (false, rest.trim()),
        None => (true, text.trim()),
    };
    let mut spans = found.get_main_result_spans().filter(|span| span.string() != "approx. ");
    match spans.next().map(|span| (span.kind(), span.string())) {
        Some((SpanKind::Number, number)) => {
            let unit = result.strip_prefix(number).map(str::trim).filter(|unit| !unit.is_empty());
            Ok(Answer {
                exact,
                number: Some(number.to_owned()),
                unit: unit.map(str::to_owned),
                ..Answer::exact(result)
            })
        }
        Some((SpanKind::String | SpanKind::Boolean, _)) => Ok(Answer::exact(result)),
        _ if result.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            Ok(Answer { exact, ..Answer::exact(result) })
        }
        _ => Err(format!("{result} is not a value; is an argument missing?")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(expression: &str) -> String {
        evaluate(expression, None).unwrap_or_else(|error| panic!("{expression}: {error}")).result
    }

    #[test]
    fn decimal_arithmetic_is_exact() {
        let answer = evaluate("0.1 + 0.2", None).unwrap();
        assert_eq!((answer.result.as_str(), answer.exact), ("0.3", true));
        assert_eq!(of("1.1 * 1.1"), "1.21");
        assert_eq!(of("9.99 * 3"), "29.97");
        assert_eq!(of("(1/3) * 3"), "1");
        assert_eq!(of("123456789 * 987654321 * 1000000007"), "121932631966163686788446883");
    }

    #[test]
    fn functions_and_constants_are_known() {
        assert_eq!(of("sqrt 16 + 2^10"), "1028");
        assert_eq!(of("sin(30 degrees)"), "0.5");
        assert_eq!(of("pi"), "3.1415926536");
        assert_eq!(of("ln(e^2)"), "2");
        assert_eq!(of("20!"), "2432902008176640000");
        assert_eq!(of("20% of 50"), "10");
        assert_eq!(of("0xff + 0b11"), "0x102");
        assert_eq!(of("a = 5; a * 2"), "10");
        assert_eq!(of("1,000,000 / 8"), "125000");
    }

    #[test]
    fn units_are_converted_and_combined() {
        let answer = evaluate("5 km in miles", None).unwrap();
        let expected = Answer {
            exact: false,
            number: Some("3.1068559612".into()),
            unit: Some("miles".into()),
            ..Answer::exact("3.1068559612 miles")
        };
        assert_eq!(answer, expected);
        assert_eq!(of("72 F to C"), "22.2222222222 °C");
        assert_eq!(of("37.5 celsius to kelvin"), "310.65 kelvin");
        assert_eq!(of("10 GiB to MB"), "10737.41824 MB");
        assert_eq!(of("5 feet 10 inches to cm"), "177.8 cm");
        assert_eq!(of("90 km/h to m/s"), "25 m / s");
        assert_eq!(of("3 kg * 9.81 m/s^2 to N"), "29.43 N");
    }

    #[test]
    fn precision_is_in_decimal_places() {
        assert_eq!(evaluate("5 km in miles", Some(2)).unwrap().result, "3.11 miles");
        assert_eq!(evaluate("1/8", Some(2)).unwrap().result, "0.13");
        assert_eq!(evaluate("2^0.5", Some(12)).unwrap().result, "1.414213562373");
        assert_eq!(
            evaluate("1/7 to 20 dp", None).unwrap_err(),
            "at most 15 decimal places are supported"
        );
        assert_eq!(of("3.1068 to 2 dp"), "3.11");
        assert_eq!(evaluate("3/2", Some(2)).unwrap().result, "1.50");
    }

    #[test]
    fn mistakes_are_explained() {
        let error = |expression: &str| evaluate(expression, None).unwrap_err();
        assert_eq!(error("1/0"), "division by zero");
        assert_eq!(
            error("5 m + 3 s"),
            "cannot convert from s to m: units 'second' and 'meter' are incompatible"
        );
        assert_eq!(
            error("5 USD to EUR"),
            "currencies are not supported: no exchange rates are available"
        );
        assert_eq!(error("  "), "the expression is empty");
        assert!(error("max(1,2)").starts_with("a comma may only separate thousands"));
        assert!(error("x: x + 1").contains("is not a value"));
        assert!(error("frobnicate 5").contains("unknown identifier"));
    }

    #[test]
    fn work_is_limited() {
        for expression in
            ["9^9^9", "10^10^10", "2^(2^40)", "1000000!", "1e9999999999", "pi to float"]
        {
            let error = evaluate(expression, None).unwrap_err();
            assert!(
                error.starts_with("too much work") || error.contains("too large"),
                "{expression}: {error}"
            );
        }
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(of(&nested(20)), "1");
        assert!(evaluate(&nested(21), None).unwrap_err().contains("deeper than 20 levels"));
        assert!(evaluate(&"(".repeat(5000), None).unwrap_err().contains("longer than 4000 bytes"));
        for (repeated, last) in [
            ("-", "5"),
            ("1+", "1"),
            ("2^", "1"),
            ("sqrt ", "1"),
            ("!", "1"),
            ("1 m ", "to m"),
            ("a=", "1"),
            ("x:", "1"),
        ] {
            assert!(
                evaluate(&(repeated.repeat(310) + last), None)
                    .unwrap_err()
                    .contains("more than 150"),
                "{repeated}"
            );
            let within = 148 / tokens(repeated);
            // Any result is accepted, as long as the evaluation ends.
            let _ = evaluate(&(repeated.repeat(within) + last), None);
        }
    }

    proptest! {
        #[test]
        fn sums_of_decimals_are_exact(a in -999_999i64..999_999, b in -999_999i64..999_999) {
            let decimal = |n: i64| format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
            let sum = evaluate(&format!("({}) + ({})", decimal(a), decimal(b)), None).unwrap();
            prop_assert!(sum.exact);
            prop_assert_eq!(sum.result.parse::<f64>().unwrap(), decimal(a + b).parse::<f64>().unwrap());
        }

        #[test]
        fn no_expression_panics(expression in "[0-9a-z+*/^()!%., -]{0,40}") {
            let _ = evaluate(&expression, None);
        }
    }
}
