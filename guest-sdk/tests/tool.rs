//! What `#[tool]` makes of a function, called natively: description, schemas, and the ways that a
//! call ends.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skillhost_guest::__private::toolbox::exports::skillhost::skill::tools::ToolError;
use skillhost_guest::__private::{call, describe};

#[derive(Deserialize, JsonSchema)]
struct DivideInput {
    /// What is divided.
    dividend: i64,
    /// What it is divided by, not 0.
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
    /// Has a name of its own, and is not async.
    #[skillhost_guest::tool(name = "count-letters")]
    pub(super) fn count(input: String) -> Result<usize, std::convert::Infallible> {
        Ok(input.chars().count())
    }
}

skillhost_guest::tools![divide, inner::count];

#[test]
fn the_function_describes_the_tool() {
    let tool = describe::<divide>();
    assert_eq!(tool.name, "divide");
    assert_eq!(tool.description, "Divides whole numbers.\n\nUse it for shares.");
    assert_eq!(describe::<inner::count>().name, "count-letters");
}

#[test]
fn doc_comments_of_fields_are_in_the_schemas() {
    let tool = describe::<divide>();
    let input: Value = serde_json::from_str(&tool.input_schema).unwrap();
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["dividend", "divisor"]));
    assert_eq!(input["properties"]["divisor"]["description"], "What it is divided by, not 0.");
    let output: Value = serde_json::from_str(&tool.output_schema.unwrap()).unwrap();
    assert_eq!(output["properties"]["quotient"]["description"], "Rounded towards 0.");
}

#[test]
fn json_goes_in_and_comes_out() {
    assert_eq!(
        ready(call::<divide>(r#"{"dividend": 7, "divisor": 2}"#)).unwrap(),
        r#"{"quotient":3}"#
    );
    assert_eq!(ready(call::<inner::count>(r#""abc""#)).unwrap(), "3");
}

#[test]
fn an_error_is_told() {
    let error = ready(call::<divide>(r#"{"dividend": 7, "divisor": 0}"#)).unwrap_err();
    assert!(matches!(error, ToolError::Failed(message) if message == "division by zero"));
}

#[test]
fn an_invalid_input_never_reaches_the_function() {
    let error = ready(call::<divide>(r#"{"dividend": 7, "divisor": "two"}"#)).unwrap_err();
    assert!(
        matches!(error, ToolError::InvalidInput(message) if message.starts_with("divisor: invalid type: string \"two\""))
    );
}

/// The result of a future that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("waits for something"),
    }
}
