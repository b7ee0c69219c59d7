//! The result of a calculation.

use schemars::JsonSchema;
use serde::Serialize;

/// The result of a calculation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answer {
    /// The result as text, with its unit: `3.1068559612 miles`, `2025-02-28`.
    pub result: String,
    /// False if the result was rounded.
    pub exact: bool,
    /// The number in the result, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// The unit of the number, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The day of the week, if the result is a date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekday: Option<String>,
}

impl Answer {
    /// Returns an exact result that is not a number.
    pub fn exact(result: impl Into<String>) -> Self {
        Self { result: result.into(), exact: true, number: None, unit: None, weekday: None }
    }
}
