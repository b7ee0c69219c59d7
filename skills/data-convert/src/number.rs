//! Numbers keep the digits with which they were written, until a filter calculates with them.

use jaq_json::{Num, Val};

/// Converts a number from its JSON text. Integers of any size are exact; decimals keep their text.
pub fn from_text(text: &str) -> Val {
    if let Some(integer) = Num::from_str_radix(text, 10) {
        return if text.starts_with("-0") {
            Val::Num(Num::Dec(text.to_owned().into()))
        } else {
            Val::Num(integer)
        };
    }
    if prints_as_written(text)
        && let Ok(float) = text.parse()
    {
        return Val::Num(Num::Float(float));
    }
    Val::Num(Num::Dec(text.to_owned().into()))
}

/// Whether a text is a number of JSON (RFC 8259, section 6).
pub fn is_json_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned.starts_with('0')) {
        return false;
    }
    let mut rest = &unsigned[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    match rest.strip_prefix(['e', 'E']) {
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        None => rest.is_empty(),
    }
}

/// Converts a number to JSON text. JSON has no NaN and no infinity: they become `null` and the
/// largest number, as in jq.
pub fn to_text(number: &Num) -> String {
    match number {
        Num::Float(f) if f.is_nan() => "null".to_owned(),
        Num::Float(f) if f.is_infinite() => to_text(&Num::Float(f64::MAX.copysign(*f))),
        Num::Float(f) if f.fract() == 0.0 && f.abs() < 1e17 => format!("{f:.0}"),
        other => other.to_string(),
    }
}

/// Whether a decimal prints unchanged after conversion to a 64-bit float, which takes a sixth of
/// the memory of its text. That holds for up to 15 significant digits in the notation of floats (no
/// exponent, no trailing zero).
fn prints_as_written(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let Some((whole, fraction)) = unsigned.split_once('.') else { return false };
    unsigned.len() <= 16
        && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        && !fraction.ends_with('0')
        && !fraction.starts_with("0000")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(text: &str) -> String {
        match from_text(text) {
            Val::Num(n) => to_text(&n),
            other => panic!("{text} became {other}"),
        }
    }

    #[test]
    fn numbers_keep_their_text() {
        for text in [
            "0",
            "-0",
            "-0.0",
            "1.10",
            "1.0",
            "1e5",
            "1E+5",
            "0.00001",
            "123456789012345678901234567890",
            "-3000000000",
            "0.1",
        ] {
            assert_eq!(round_trip(text), text);
        }
        assert_eq!(round_trip("3.14159265358979323846"), "3.14159265358979323846");
    }

    #[test]
    fn computed_floats_are_valid_json() {
        assert_eq!(to_text(&Num::Float(2.0)), "2");
        assert_eq!(to_text(&Num::Float(1e300)), "1e300");
        assert_eq!(to_text(&Num::Float(f64::NAN)), "null");
        assert_eq!(to_text(&Num::Float(f64::NEG_INFINITY)), "-1.7976931348623157e308");
    }

    #[test]
    fn lookalikes_are_not_numbers() {
        for text in ["", "-", "007", "+1", "1.", ".5", "1e", "0x10", "1_000", "NaN", " 1", "1 "] {
            assert!(!is_json_number(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_json_number_keeps_its_text(text in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?") {
            prop_assert!(is_json_number(&text));
            prop_assert_eq!(round_trip(&text), text);
        }
    }
}
