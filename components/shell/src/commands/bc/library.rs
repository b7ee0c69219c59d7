//! The functions of `bc -l`, by series: `s`, `c`, `a`, `l`, `e` and `j`.

use num_bigint::{BigInt, Sign};

use super::number::Number;

/// More digits than the result has, so that those that are kept are right.
const GUARD: u32 = 10;

/// Computes a function of the library. `None` if the library has no function of this name.
pub(super) fn call(name: &str, arguments: &[Number], scale: u32) -> Option<Number> {
    let result = match (name, arguments) {
        ("s", [x]) => wave(x, scale + GUARD, true),
        ("c", [x]) => wave(x, scale + GUARD, false),
        ("a", [x]) => arctangent(x, scale + GUARD),
        ("l", [x]) => logarithm(x, scale),
        ("e", [x]) => exponential(x, scale),
        ("j", [order, x]) => bessel(order, x, scale + GUARD),
        _ => return None,
    };
    let result = result.truncated(scale);
    Some(Number::new(result.digits * BigInt::from(10).pow(scale - result.scale), scale))
}

fn number(value: i64) -> Number {
    Number::new(BigInt::from(value), 0)
}

/// Divides by a number that is not zero.
fn divided(x: &Number, by: &Number, scale: u32) -> Number {
    x.over(by, scale).unwrap_or_default()
}

fn half(x: &Number, scale: u32) -> Number {
    divided(x, &number(2), scale)
}

fn is_negative(x: &Number) -> bool {
    x.digits.sign() == Sign::Minus
}

fn pi(scale: u32) -> Number {
    arctangent(&number(1), scale + GUARD).times(&number(4), scale + GUARD)
}

/// The sine, or else the cosine.
fn wave(x: &Number, scale: u32, is_sine: bool) -> Number {
    let inner = scale + GUARD + x.length();
    let turn = pi(inner).times(&number(2), inner);
    let turns = divided(x, &turn, 0);
    let x = x.minus(&turn.times(&turns, inner));
    let square = x.times(&x, inner).negated();
    let (first, mut count) = if is_sine { (x, 1) } else { (number(1), 0) };
    let (mut term, mut sum) = (first.clone(), first);
    while !term.is_zero() {
        term = divided(
            &term.times(&square, inner).truncated(inner),
            &number((count + 1) * (count + 2)),
            inner,
        );
        sum = sum.plus(&term);
        count += 2;
    }
    sum
}

fn arctangent(x: &Number, scale: u32) -> Number {
    let inner = scale + GUARD;
    let (mut x, mut doublings) = (x.truncated(inner.max(x.scale)), 0);
    let one = number(1);
    // atan(x) is twice atan(x / (1 + sqrt(1 + x^2))).
    let small = Number::new(BigInt::from(2), 1);
    while Number::new(x.digits.magnitude().clone().into(), x.scale).compare(&small).is_gt() {
        let root = one.plus(&x.times(&x, inner)).root(inner).unwrap_or_default();
        x = divided(&x, &one.plus(&root), inner);
        doublings += 1;
    }
    let square = x.times(&x, inner).negated();
    let (mut power, mut sum, mut count) = (x.clone(), x, 1);
    while !power.is_zero() {
        power = power.times(&square, inner).truncated(inner);
        count += 2;
        sum = sum.plus(&divided(&power, &number(count), inner));
    }
    sum.times(&number(1 << doublings), inner)
}

fn logarithm(x: &Number, scale: u32) -> Number {
    let one = number(1);
    if is_negative(x) || x.is_zero() {
        // What bc returns where there is no logarithm.
        return one.minus(&Number::new(BigInt::from(10).pow(scale), 0));
    }
    let inner = scale + GUARD + x.length();
    let (mut x, mut factor) = (x.clone(), number(2));
    let (low, high) = (Number::new(BigInt::from(5), 1), number(2));
    while x.compare(&low).is_le() || x.compare(&high).is_ge() {
        x = x.root(inner).unwrap_or_default();
        factor = factor.times(&number(2), 0);
    }
    // Twice the area hyperbolic tangent of (x - 1) / (x + 1).
    let ratio = divided(&x.minus(&one), &x.plus(&one), inner);
    let square = ratio.times(&ratio, inner);
    let (mut power, mut sum, mut count) = (ratio.clone(), ratio, 1);
    while !power.is_zero() {
        power = power.times(&square, inner).truncated(inner);
        count += 2;
        sum = sum.plus(&divided(&power, &number(count), inner));
    }
    sum.times(&factor, inner)
}

fn exponential(x: &Number, scale: u32) -> Number {
    if is_negative(x) {
        let whole = x.negated().whole().unwrap_or(i64::MAX);
        // Smaller than any digit of the result.
        if whole > 3 * (i64::from(scale) + 1) {
            return Number::default();
        }
        let positive = exponential(&x.negated(), scale + GUARD);
        return divided(&number(1), &positive, scale + GUARD);
    }
    let whole = x.whole().unwrap_or(i64::MAX).min(1_000_000);
    let mut halvings = 0;
    let mut inner = scale + GUARD + (whole / 2) as u32 + x.scale;
    let mut x = x.clone();
    while x.compare(&number(1)).is_gt() {
        inner += 1;
        x = half(&x, inner);
        halvings += 1;
    }
    let (mut term, mut sum, mut count) = (number(1), number(1), 0);
    while !term.is_zero() {
        count += 1;
        term = divided(&term.times(&x, inner).truncated(inner), &number(count), inner);
        sum = sum.plus(&term);
    }
    for _ in 0..halvings {
        sum = sum.times(&sum, inner).truncated(inner);
    }
    sum
}

fn bessel(order: &Number, x: &Number, scale: u32) -> Number {
    let order = order.whole().unwrap_or(0);
    let count = order.unsigned_abs().min(1_000) as i64;
    let inner = scale + GUARD + x.length();
    let middle = half(x, inner);
    let mut term = number(1);
    for factor in 1..=count {
        term = divided(&term.times(&middle, inner).truncated(inner), &number(factor), inner);
    }
    let square = middle.times(&middle, inner).truncated(inner).negated();
    let (mut sum, mut step) = (term.clone(), 0);
    while !term.is_zero() {
        step += 1;
        term = divided(
            &term.times(&square, inner).truncated(inner),
            &number(step * (step + count)),
            inner,
        );
        sum = sum.plus(&term);
    }
    if order < 0 && count % 2 == 1 { sum.negated() } else { sum }
}
