//! Calls tools natively: their description, their schemas, and the results of calls.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillhost_guest::__private::toolbox::exports::skillhost::skill::tools::ToolError;
use skillhost_guest::__private::{call, describe};

#[derive(Deserialize, JsonSchema)]
struct DivideInput {
    /// The number to divide.
    dividend: i64,
    /// The number to divide by, not 0.
    divisor: i64,
}

#[derive(Serialize, JsonSchema)]
struct Quotient {
    /// Rounded towards 0.
    quotient: i64,
}

/// Divides whole numbers.
///
/// Use it for shares.
#[skillhost_guest::tool]
async fn divide(input: DivideInput) -> Result<Quotient, String> {
    let quotient = input.dividend.checked_div(input.divisor).ok_or("division by zero")?;
    Ok(Quotient { quotient })
}

mod inner {
    /// Counts letters.
    #[skillhost_guest::tool(name = "count-letters")]
    pub(super) fn count(input: String) -> Result<usize, std::convert::Infallible> {
        Ok(input.chars().count())
    }
}

skillhost_guest::tools![divide, inner::count];

#[test]
fn doc_comment_and_name_describe_the_tool() {
    let tool = describe::<divide>();
    assert_eq!(tool.name, "divide");
    assert_eq!(tool.description, "Divides whole numbers.\n\nUse it for shares.");
    assert_eq!(describe::<inner::count>().name, "count-letters");
}

#[test]
fn schemas_contain_field_descriptions() {
    let tool = describe::<divide>();
    let input: Value = serde_json::from_str(&tool.input_schema).unwrap();
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["dividend", "divisor"]));
    assert_eq!(input["properties"]["divisor"]["description"], "The number to divide by, not 0.");
    let output: Value = serde_json::from_str(&tool.output_schema.unwrap()).unwrap();
    assert_eq!(output["properties"]["quotient"]["description"], "Rounded towards 0.");
}

#[test]
fn calls_take_and_return_json() {
    assert_eq!(
        ready(call::<divide>(r#"{"dividend": 7, "divisor": 2}"#)).unwrap(),
        r#"{"quotient":3}"#
    );
    assert_eq!(ready(call::<inner::count>(r#""abc""#)).unwrap(), "3");
}

#[test]
fn tool_error_is_returned() {
    let error = ready(call::<divide>(r#"{"dividend": 7, "divisor": 0}"#)).unwrap_err();
    assert!(matches!(error, ToolError::Failed(message) if message == "division by zero"));
}

#[test]
fn invalid_input_does_not_reach_the_function() {
    let error = ready(call::<divide>(r#"{"dividend": 7, "divisor": "two"}"#)).unwrap_err();
    assert!(
        matches!(error, ToolError::InvalidInput(message) if message.starts_with("divisor: invalid type: string \"two\""))
    );
}

/// Returns the result of a future that is ready at once.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is not ready"),
    }
}
