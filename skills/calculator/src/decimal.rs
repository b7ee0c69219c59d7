//! Converts a fraction to a decimal, rounded half away from zero. fend's own rounding drops zeros:
//! with two places, 3.1068 would become 3.2.

use num_bigint::{BigInt, BigUint};

/// Significant digits of a rounded number if no precision is requested.
const DIGITS: u32 = 10;
/// The maximum number of places.
const MOST_PLACES: u32 = 100;

/// Converts `numerator/denominator` to a decimal with the given number of places. Without `places`,
/// keeps ten significant digits after the point and drops trailing zeros. Also returns whether the
/// decimal is exact. `None` if the text is not a fraction, as for hexadecimal numbers.
pub fn from_fraction(text: &str, places: Option<u32>) -> Option<(String, bool)> {
    let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
    let numerator: BigInt = numerator.parse().ok()?;
    let denominator: BigUint = denominator.parse().ok().filter(|d| *d != BigUint::ZERO)?;
    let (sign, magnitude) = numerator.into_parts();
    let wanted =
        places.unwrap_or_else(|| DIGITS + leading_zeros(&magnitude, &denominator)).min(MOST_PLACES);
    let scaled = &magnitude * BigUint::from(10u8).pow(wanted);
    let exact = &scaled % &denominator == BigUint::ZERO;
    let two = BigUint::from(2u8);
    let rounded = (scaled * &two + &denominator) / (denominator * two);
    let digits = format!("{rounded:0>width$}", width = wanted as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - wanted as usize);
    let fraction = if places.is_none() { fraction.trim_end_matches('0') } else { fraction };
    let minus = if sign == num_bigint::Sign::Minus && rounded != BigUint::ZERO { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some((format!("{minus}{whole}{point}{fraction}"), exact))
}

/// Returns the number of zeros between the decimal point and the first other digit.
fn leading_zeros(numerator: &BigUint, denominator: &BigUint) -> u32 {
    let mut scaled = numerator * 10u8;
    let mut zeros = 0;
    while scaled < *denominator && scaled != BigUint::ZERO && zeros < MOST_PLACES {
        scaled *= 10u8;
        zeros += 1;
    }
    zeros
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_become_decimals() {
        let of = |text: &str, places| {
            from_fraction(text, places).map(|(text, exact)| format!("{text} {exact}")).unwrap()
        };
        assert_eq!(of("1/8", None), "0.125 true");
        assert_eq!(of("-1/3", None), "-0.3333333333 false");
        assert_eq!(of("78125/25146", Some(2)), "3.11 false");
        assert_eq!(of("3/2", Some(2)), "1.50 true");
        assert_eq!(of("1999/1000", Some(2)), "2.00 false");
        assert_eq!(of("1/8", Some(2)), "0.13 false");
        assert_eq!(of("-1/1000", Some(2)), "0.00 false");
        assert_eq!(of("1/300000000000000", None), "0.000000000000003333333333 false");
        assert_eq!(of("7", Some(0)), "7 true");
        assert_eq!(from_fraction("0x10/0x3", None), None);
    }
}
