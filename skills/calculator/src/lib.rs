//! Calculates expressions with units and dates.

pub mod answer;
pub mod args;
pub mod dates;
pub mod decimal;
pub mod evaluate;

use std::time::UNIX_EPOCH;

use answer::Answer;
use schemars::JsonSchema;
use serde::Deserialize;

/// Evaluates an expression about dates, or else about numbers with units. `now` is in seconds since
/// 1970.
///
/// # Errors
/// Returns the problem with the expression.
pub fn answer_to(expression: &str, precision: Option<u32>, now: i64) -> Result<Answer, String> {
    dates::answer(expression, now).unwrap_or_else(|| evaluate::evaluate(expression, precision))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CalculateInput {
    /// The expression, such as `0.1 + 0.2`, `sqrt(2) * 3`, `5 km in miles`, `72 F to C`,
    /// `2024-02-29 + 1 year`, `days between 2024-01-01 and today`, `weekday of 2024-02-29`.
    expression: String,
    /// Decimal places of the result; about ten digits by default.
    precision: Option<u32>,
}

/// Calculates an expression exactly: arithmetic, functions, unit conversions and dates. Use it for
/// every calculation whose result must be exact.
#[skillhost_guest::tool]
async fn calculate(input: CalculateInput) -> Result<Answer, String> {
    answer_to(&input.expression, input.precision, now())
}

skillhost_guest::tools!(calculate);

#[skillhost_guest::main]
async fn main(args: Vec<String>) -> Result<(), String> {
    match args::parse(args.into_iter().skip(1))? {
        Some((expression, precision)) => {
            skillhost_guest::println!("{}", answer_to(&expression, precision, now())?.result)
        }
        None => skillhost_guest::print!("{}", args::HELP),
    }
    Ok(())
}

fn now() -> i64 {
    skillhost_guest::time::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
