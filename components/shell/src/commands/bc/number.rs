//! Decimal numbers as bc computes with them: of any length, with a number of digits after the point.

use num_bigint::{BigInt, Sign};

/// A computation whose result has more digits than this ends the program: the next one would take
/// most of the memory.
const MOST_DIGITS: u64 = 1_000_000;
/// The number of characters of a line, without the backslash that continues it.
const LINE: usize = 68;

/// `digits` divided by 10 to the power of `scale`.
#[derive(Clone, Debug, Default)]
pub(super) struct Number {
    pub(super) digits: BigInt,
    pub(super) scale: u32,
}

fn ten_to(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

impl Number {
    pub(super) fn new(digits: BigInt, scale: u32) -> Number {
        Number { digits, scale }
    }

    /// Reads digits of base `base` with at most one point. The parser admits nothing else.
    pub(super) fn parse(text: &str, base: u32) -> Number {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let single = whole.len() + fraction.len() == 1;
        let digit = |c: char| {
            let value = c.to_digit(16).unwrap_or(0);
            if single { value } else { value.min(base - 1) }
        };
        let mut digits = BigInt::default();
        for c in whole.chars().chain(fraction.chars()) {
            digits = digits * base + digit(c);
        }
        let scale = fraction.len() as u32;
        if base == 10 {
            return Number::new(digits, scale);
        }
        // As many decimal digits as there were digits.
        Number::new(digits * ten_to(scale) / BigInt::from(base).pow(scale), scale)
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    pub(super) fn negated(&self) -> Number {
        Number::new(-&self.digits, self.scale)
    }

    /// The digits with more of them after the point.
    fn at(&self, scale: u32) -> BigInt {
        &self.digits * ten_to(scale.saturating_sub(self.scale))
    }

    /// Drops digits after the point.
    pub(super) fn truncated(&self, scale: u32) -> Number {
        if scale >= self.scale {
            return self.clone();
        }
        Number::new(&self.digits / ten_to(self.scale - scale), scale)
    }

    pub(super) fn plus(&self, other: &Number) -> Number {
        let scale = self.scale.max(other.scale);
        Number::new(self.at(scale) + other.at(scale), scale)
    }

    pub(super) fn minus(&self, other: &Number) -> Number {
        self.plus(&other.negated())
    }

    pub(super) fn times(&self, other: &Number, scale: u32) -> Number {
        let all = self.scale + other.scale;
        Number::new(&self.digits * &other.digits, all)
            .truncated(all.min(scale.max(self.scale).max(other.scale)))
    }

    /// `None`: the divisor is zero.
    pub(super) fn over(&self, other: &Number, scale: u32) -> Option<Number> {
        if other.is_zero() {
            return None;
        }
        let power = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let shift = ten_to(power.unsigned_abs() as u32);
        let digits = if power >= 0 {
            &self.digits * shift / &other.digits
        } else {
            &self.digits / (&other.digits * shift)
        };
        Some(Number::new(digits, scale))
    }

    pub(super) fn rest(&self, other: &Number, scale: u32) -> Option<Number> {
        let quotient = self.over(other, scale)?;
        let product = Number::new(&quotient.digits * &other.digits, scale + other.scale);
        Some(self.minus(&product))
    }

    /// The whole part, if it fits.
    pub(super) fn whole(&self) -> Option<i64> {
        i64::try_from(self.truncated(0).digits).ok()
    }

    /// # Errors
    /// A reason: zero to a negative power, or too many digits.
    pub(super) fn power(&self, exponent: &Number, scale: u32) -> Result<Number, &'static str> {
        let exponent = exponent.whole().ok_or("exponent too large in raise")?;
        let count = exponent.unsigned_abs();
        let most = count.saturating_mul(self.digits.bits() / 3 + 1);
        if most > MOST_DIGITS && self.digits.bits() > 1 {
            return Err("exponent too large in raise");
        }
        let full = u32::try_from(count).map_err(|_| "exponent too large in raise")?;
        let raised = Number::new(self.digits.pow(full), self.scale.saturating_mul(full));
        if exponent < 0 {
            let one = Number::new(BigInt::from(1), 0);
            return one.over(&raised, scale).ok_or("divide by zero");
        }
        let scale = raised.scale.min(scale.max(self.scale));
        Ok(raised.truncated(scale))
    }

    /// `None`: the number is negative.
    pub(super) fn root(&self, scale: u32) -> Option<Number> {
        if self.digits.sign() == Sign::Minus {
            return None;
        }
        let scale = scale.max(self.scale);
        Some(Number::new((&self.digits * ten_to(2 * scale - self.scale)).sqrt(), scale))
    }

    /// The number of its digits, without zeros before the first one.
    pub(super) fn length(&self) -> u32 {
        let digits = self.digits.magnitude().to_string().len() as u32;
        digits.max(self.scale).max(1)
    }

    pub(super) fn compare(&self, other: &Number) -> std::cmp::Ordering {
        let scale = self.scale.max(other.scale);
        self.at(scale).cmp(&other.at(scale))
    }

    /// The number as bc prints it, in lines.
    pub(super) fn shown(&self, base: u32) -> String {
        let text = if base == 10 { self.decimal() } else { self.in_base(base) };
        if text.len() <= LINE {
            return text;
        }
        let mut lines = String::new();
        for (at, c) in text.chars().enumerate() {
            if at > 0 && at % LINE == 0 {
                lines.push_str("\\\n");
            }
            lines.push(c);
        }
        lines
    }

    fn decimal(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let scale = self.scale as usize;
        let digits = format!("{:0>scale$}", self.digits.magnitude().to_string());
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.digits.sign() == Sign::Minus { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        format!("{sign}{whole}{point}{fraction}")
    }

    fn in_base(&self, base: u32) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let sign = if self.digits.sign() == Sign::Minus { "-" } else { "" };
        let one = ten_to(self.scale);
        let magnitude = BigInt::from(self.digits.magnitude().clone());
        let (mut whole, mut fraction) = (&magnitude / &one, &magnitude % &one);
        let zero = BigInt::default();
        let mut digits = Vec::new();
        while whole > zero {
            digits.push(digit(&(&whole % base), base));
            whole /= base;
        }
        digits.reverse();
        let mut text = format!("{sign}{}", digits.concat());
        if self.scale > 0 {
            text.push('.');
            // As many digits as the fraction determines.
            let (mut digits, mut steps) = (Vec::new(), BigInt::from(1));
            while steps < one {
                fraction *= base;
                digits.push(digit(&(&fraction / &one), base));
                fraction %= &one;
                steps *= base;
            }
            text += digits.concat().trim_start();
        }
        text
    }
}

/// One digit. From base 17 on, they are decimal numbers.
fn digit(value: &BigInt, base: u32) -> String {
    let value = u32::try_from(value).unwrap_or(0);
    if base <= 16 {
        return char::from_digit(value, 16).unwrap_or('0').to_ascii_uppercase().to_string();
    }
    let width = (base - 1).to_string().len();
    format!(" {value:0width$}")
}
