//! Compares JSON values as schemas do: numbers by value, objects without order.

use std::cmp::Ordering;
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};

use serde_json::{Number, Value};

use super::{Budget, EvaluationError};

/// A number; integers are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Num {
    Whole(i128),
    Other(f64),
}

impl Num {
    pub(super) fn of(number: &Number) -> Num {
        /// Whole floats below this convert exactly.
        const EXACT: f64 = 1e36;
        if let Some(whole) = number.as_i128() {
            return Num::Whole(whole);
        }
        match number.as_f64().unwrap_or(f64::NAN) {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within range")]
            float if float.fract() == 0.0 && float.abs() < EXACT => Num::Whole(float as i128),
            float => Num::Other(float),
        }
    }

    pub(super) fn is_whole(self) -> bool {
        match self {
            Num::Whole(_) => true,
            Num::Other(float) => float.fract() == 0.0,
        }
    }

    pub(super) fn compare(self, other: Num) -> Option<Ordering> {
        match (self, other) {
            (Num::Whole(one), Num::Whole(other)) => Some(one.cmp(&other)),
            (one, other) => one.float().partial_cmp(&other.float()),
        }
    }

    pub(super) fn is_multiple_of(self, other: Num) -> bool {
        match (self, other) {
            (_, Num::Whole(0)) => false,
            (Num::Whole(one), Num::Whole(other)) => one % other == 0,
            (one, other) => {
                let quotient = one.float() / other.float();
                quotient.is_finite()
                    && (quotient - quotient.round()).abs()
                        <= f64::EPSILON * quotient.abs().max(1.0) * 4.0
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "compared with a number of the same precision")]
    fn float(self) -> f64 {
        match self {
            Num::Whole(whole) => whole as f64,
            Num::Other(float) => float,
        }
    }
}

/// Checks whether two values are equal.
pub(super) fn equal(
    one: &Value,
    other: &Value,
    budget: &mut Budget<'_>,
) -> Result<bool, EvaluationError> {
    budget.descend()?;
    let same = match (one, other) {
        (Value::Number(one), Value::Number(other)) => Num::of(one) == Num::of(other),
        (Value::String(one), Value::String(other)) => {
            budget.charge(one.len() as u64 / 64)?;
            one == other
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut same = true;
            for (one, other) in one.iter().zip(other) {
                same = same && equal(one, other, budget)?;
            }
            same
        }
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            let mut same = true;
            for (name, one) in one {
                same =
                    same && other.get(name).map_or(Ok(false), |other| equal(one, other, budget))?;
            }
            same
        }
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => false,
        (one, other) => one == other,
    };
    budget.ascend();
    Ok(same)
}

/// Checks whether all items differ. Compares only items whose keyed hashes are equal, so that it is
/// not quadratic.
pub(super) fn all_differ(
    items: &[Value],
    budget: &mut Budget<'_>,
) -> Result<bool, EvaluationError> {
    let keys = RandomState::new();
    let mut hashes = Vec::with_capacity(items.len());
    for item in items {
        let mut hasher = keys.build_hasher();
        hash(item, &keys, &mut hasher, budget)?;
        hashes.push((hasher.finish(), item));
    }
    budget.charge(items.len() as u64)?;
    hashes.sort_unstable_by_key(|(hash, _)| *hash);
    for two in hashes.windows(2) {
        if two[0].0 == two[1].0 && equal(two[0].1, two[1].1, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn hash(
    value: &Value,
    keys: &RandomState,
    hasher: &mut DefaultHasher,
    budget: &mut Budget<'_>,
) -> Result<(), EvaluationError> {
    budget.descend()?;
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(bool) => (1_u8, bool).hash(hasher),
        Value::Number(number) => match Num::of(number) {
            Num::Whole(whole) => (2_u8, whole).hash(hasher),
            Num::Other(float) => (3_u8, float.to_bits()).hash(hasher),
        },
        Value::String(text) => {
            budget.charge(text.len() as u64 / 64)?;
            (4_u8, text).hash(hasher);
        }
        Value::Array(items) => {
            (5_u8, items.len()).hash(hasher);
            for item in items {
                hash(item, keys, hasher, budget)?;
            }
        }
        Value::Object(members) => {
            // Independent of order: adds up the hashes of the members.
            let mut sum = 0_u64;
            for (name, value) in members {
                let mut member = keys.build_hasher();
                name.hash(&mut member);
                hash(value, keys, &mut member, budget)?;
                sum = sum.wrapping_add(member.finish());
            }
            (6_u8, sum).hash(hasher);
        }
    }
    budget.ascend();
    Ok(())
}
