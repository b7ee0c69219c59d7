//! Asks a component for its tools, and calls a tool with an input that its schema allows.
//!
//! Names, schemas and results come from the guest. They are limited and charged to the run's memory
//! before the host parses them, and schemas are evaluated within the run: see
//! [`schema`](crate::schema).

use serde_json::Value;
use tracing::{Instrument as _, debug_span};
use wasmtime::Store;
use wasmtime::component::InstancePre;

use super::listing::{self, Offer};
use super::offload::HostWork;
use crate::limits::HostMemory;
use crate::schema::{Budget, EvaluationError, problems};
use skillhost_policy::limits::Limit;

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-tools; world tools-guest { export skillhost:skill/tools@0.1.0; }",
        path: "wit",
        world: "skillhost:host-tools/tools-guest",
        exports: { default: async | store },
    });
}

use bindings::exports::skillhost::skill::tools::{Tool as GuestTool, ToolError};

/// A guest's result, or its error message.
type CallResult = Result<Value, String>;

/// The most that is kept of a guest's message, in bytes.
const MESSAGE_MAX: usize = 16 << 10;

/// Calls a tool, if the input matches its schema. The output must match its output schema.
pub(crate) async fn call<T: Send + 'static>(
    store: &mut Store<T>,
    pre: &InstancePre<T>,
    host: &HostWork,
    name: &str,
    input: String,
    scripts: &[String],
) -> wasmtime::Result<CallResult> {
    let guest = bindings::ToolsGuestPre::new(pre.clone())?;
    let guest = guest.instantiate_async(&mut *store).instrument(debug_span!("instantiate")).await?;
    store
        .run_concurrent(async |accessor| {
            let tools = guest.skillhost_skill_tools();
            let mut call = Call::new(host, name);
            let offers = offers(tools.call_list_tools(accessor).await?);
            if let Err(message) = call.check_input(offers, &input, scripts).await? {
                return Ok(Err(message));
            }
            match tools.call_call(accessor, name.to_owned(), input).await? {
                Ok(output) => call.read_output(&output).await,
                Err(ToolError::UnknownTool(name)) => {
                    Ok(Err(shorten(format!("unknown tool `{name}`"))))
                }
                Err(ToolError::InvalidInput(message)) => {
                    Ok(Err(shorten(format!("invalid input: {message}"))))
                }
                Err(ToolError::Failed(message)) => Ok(Err(shorten(message))),
            }
        })
        .instrument(debug_span!("guest"))
        .await?
}

/// Asks a component that has tools for them; returns a JSON array of `Tool`.
pub(crate) async fn list<T: Send + 'static>(
    store: &mut Store<T>,
    pre: &InstancePre<T>,
    host: &HostWork,
) -> wasmtime::Result<CallResult> {
    let guest = bindings::ToolsGuestPre::new(pre.clone())?.instantiate_async(&mut *store).await?;
    store
        .run_concurrent(async |accessor| {
            let offers = offers(guest.skillhost_skill_tools().call_list_tools(accessor).await?);
            let mut memory = host.memory();
            if let Err(message) = listing::check_offers(&offers) {
                return Ok(Err(message));
            }
            let schemas = offers
                .iter()
                .flat_map(|offer| [Some(&offer.input_schema), offer.output_schema.as_ref()])
                .flatten();
            if !memory.grow(schemas.map(|schema| parsed_size(schema)).sum()) {
                return Ok(Err("its listing exceeds the limit `memory`".into()));
            }
            let tools = match offers.into_iter().map(Offer::parse).collect::<Result<Vec<_>, _>>() {
                Ok(tools) => tools,
                Err(message) => return Ok(Err(message)),
            };
            let checked = move |budget: &mut Budget<'_>| {
                (listing::check_tools(&tools, budget), serde_json::to_value(&tools))
            };
            let (verdict, value) = match checked(&mut Budget::quick()) {
                (Err(stop), _) if stop.exceeds_budget() => {
                    host.run(move |cancelled| checked(&mut Budget::full(cancelled))).await?
                }
                checked => checked,
            };
            Ok(verdict
                .map_err(|stop| stop.to_string())
                .and_then(|()| value.map_err(|error| error.to_string())))
        })
        .await?
}

/// One call of a tool, and what the host knows of it.
struct Call<'a> {
    host: &'a HostWork,
    name: &'a str,
    output_schema: Option<Value>,
    /// Memory for the schemas and the output.
    memory: HostMemory,
}

impl<'a> Call<'a> {
    fn new(host: &'a HostWork, name: &'a str) -> Call<'a> {
        Call { host, name, output_schema: None, memory: host.memory() }
    }

    /// Checks an input against the tool's schema. The message names each field that does not match.
    async fn check_input(
        &mut self,
        offers: Vec<Offer>,
        input: &str,
        scripts: &[String],
    ) -> wasmtime::Result<Result<(), String>> {
        let name = self.name;
        let tool = match find(offers, name, scripts) {
            Ok(tool) => tool,
            Err(message) => return Ok(Err(message)),
        };
        let schemas =
            parsed_size(&tool.input_schema) + tool.output_schema.as_deref().map_or(0, parsed_size);
        if !self.memory.grow(schemas) {
            return Ok(Err(format!("the schemas of `{name}` exceed the limit `memory`")));
        }
        let tool = match tool.parse() {
            Ok(tool) => tool,
            Err(message) => return Ok(Err(message)),
        };
        self.output_schema = tool.output_schema;
        let input = match serde_json::from_str(input) {
            Ok(input) => input,
            Err(error) => {
                return Ok(Err(format!("the input of `{name}` is not valid JSON: {error}")));
            }
        };
        let (_, verdict) = evaluate(self.host, tool.input_schema, input).await?;
        Ok(match verdict {
            Ok(problems) if problems.is_empty() => Ok(()),
            Ok(problems) => Err(format!("invalid input for `{name}`: {}", problems.join("; "))),
            Err(stop) => Err(format!("the input schema of `{name}` cannot be used: {stop}")),
        })
    }

    /// Parses an output, if it is within the limits and matches the tool's schema.
    async fn read_output(&mut self, output: &str) -> wasmtime::Result<CallResult> {
        let (name, meter) = (self.name, &self.host.meter);
        // A tool's output counts as a command's standard output.
        if output.len() as u64 > meter.limits.stdout {
            meter.hit(Limit::Stdout);
            return Ok(Err(format!(
                "the output of `{name}` has {} bytes, more than the limit `stdout`",
                output.len()
            )));
        }
        if !self.memory.grow(parsed_size(output)) {
            return Ok(Err(format!("the output of `{name}` exceeds the limit `memory`")));
        }
        let output = match serde_json::from_str(output) {
            Ok(output) => output,
            Err(error) => {
                return Ok(Err(format!("the output of `{name}` is not valid JSON: {error}")));
            }
        };
        let Some(schema) = self.output_schema.take() else { return Ok(Ok(output)) };
        let (output, verdict) = evaluate(self.host, schema, output).await?;
        Ok(match verdict {
            Ok(problems) if problems.is_empty() => Ok(output),
            Ok(problems) => Err(format!(
                "the output of `{name}` does not match its schema: {}",
                problems.join("; ")
            )),
            Err(stop) => Err(format!("the output schema of `{name}` cannot be used: {stop}")),
        })
    }
}

/// Evaluates a schema: immediately if that takes few steps, else on another thread. Returns the
/// value too.
async fn evaluate(
    host: &HostWork,
    schema: Value,
    value: Value,
) -> wasmtime::Result<(Value, Result<Vec<String>, EvaluationError>)> {
    match problems(&schema, &value, &mut Budget::quick()) {
        Err(stop) if stop.exceeds_budget() => {}
        verdict => return Ok((value, verdict)),
    }
    let evaluate = move |cancelled: &_| {
        let verdict = problems(&schema, &value, &mut Budget::full(cancelled));
        (value, verdict)
    };
    host.run(evaluate).await
}

fn offers(tools: Vec<GuestTool>) -> Vec<Offer> {
    let offer = |GuestTool { name, description, input_schema, output_schema }| Offer {
        name,
        description,
        input_schema,
        output_schema,
    };
    tools.into_iter().map(offer).collect()
}

/// Finds a tool by name. The message lists those that exist.
fn find(mut offers: Vec<Offer>, name: &str, scripts: &[String]) -> Result<Offer, String> {
    listing::check_offers(&offers)?;
    match offers.iter().position(|offer| offer.name == name) {
        Some(at) => Ok(offers.swap_remove(at)),
        None => {
            let names: Vec<_> = offers.iter().map(|offer| offer.name.as_str()).collect();
            Err(format!(
                "unknown tool `{name}`; available tools: {}{}",
                names.join(", "),
                no_script_either(scripts)
            ))
        }
    }
}

/// Adds to a message that no script has the name either, if the skill has scripts.
pub(crate) fn no_script_either(scripts: &[String]) -> String {
    if scripts.is_empty() {
        String::new()
    } else {
        format!("; no script has that name either; available scripts: {}", scripts.join(", "))
    }
}

/// Shortens a guest's message.
fn shorten(mut message: String) -> String {
    if message.len() > MESSAGE_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        message.push_str("...");
    }
    message
}

/// Returns an upper bound for the memory of a JSON text's parsed value, in bytes. A value needs
/// many times the size of its text: an item of a list 72 bytes, a list of one item 300.
fn parsed_size(json: &str) -> u64 {
    /// A list or object: its smallest allocation, and the value itself.
    const CONTAINER: u64 = 384;
    /// An item: the value, in a list that doubles when it grows.
    const ITEM: u64 = 224;
    /// A member: name, value and hash, in a table that doubles when it grows.
    const MEMBER: u64 = 384;
    /// Half of a string: its smallest allocation.
    const QUOTE: u64 = 16;
    let mut size = 64 + json.len() as u64;
    let (mut in_string, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => {
                in_string = !in_string;
                size += QUOTE;
            }
            _ if in_string => {}
            b'[' | b'{' => size += CONTAINER,
            b',' => size += ITEM,
            b':' => size += MEMBER,
            _ => {}
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tool_error_lists_the_tools() {
        let offer = |name: &str| Offer {
            name: name.into(),
            description: "Converts".into(),
            input_schema: "true".into(),
            output_schema: None,
        };
        let message = |name, scripts: &[String]| {
            find(vec![offer("convert")], name, scripts).map(|offer| offer.name).unwrap_err()
        };
        assert_eq!(message("konvert", &[]), "unknown tool `konvert`; available tools: convert");
        let scripts = ["scripts/a.py".to_owned(), "scripts/b.sh".to_owned()];
        let expected = "unknown tool `a`; available tools: convert; no script has that name either; available scripts: scripts/a.py, scripts/b.sh";
        assert_eq!(message("a", &scripts), expected);
    }

    #[test]
    fn guest_messages_are_cut_between_characters() {
        let long = shorten("é".repeat(MESSAGE_MAX));
        assert!(long.len() <= MESSAGE_MAX + 3 && long.ends_with("é..."));
        assert_eq!(shorten("short".into()), "short");
    }

    #[test]
    fn parsed_size_is_an_upper_bound() {
        /// Returns a lower bound for what is allocated for a value, without the value itself.
        fn allocated(value: &Value) -> u64 {
            let block = |bytes: usize| {
                if bytes == 0 { 0 } else { (bytes as u64 + 8).next_multiple_of(16).max(32) }
            };
            match value {
                Value::String(text) => block(text.capacity()),
                Value::Array(items) => {
                    block(items.capacity() * size_of::<Value>())
                        + items.iter().map(allocated).sum::<u64>()
                }
                Value::Object(members) => {
                    let entries = members.len().next_power_of_two().max(4);
                    let member = |(name, value): (&String, &Value)| {
                        block(name.capacity()) + allocated(value)
                    };
                    block(entries * (size_of::<(u64, String, Value)>()))
                        + block(entries * 18 + 16)
                        + members.iter().map(member).sum::<u64>()
                }
                _ => 0,
            }
        }
        let texts = [
            format!("[{}0]", "[0],".repeat(10_000)),
            format!("[{}0]", r#"{"a":0},"#.repeat(10_000)),
            format!("[{}0]", "0,".repeat(10_000)),
            format!("[{}0]", r#""a","#.repeat(10_000)),
            format!("[{}0]", "[],{},".repeat(10_000)),
            format!(
                "{{{}\"z\":0}}",
                (0..10_000).map(|n| format!("\"{n}\":{n},")).collect::<String>()
            ),
            format!("\"{}\"", "x".repeat(100_000)),
        ];
        for text in texts {
            let value: Value = serde_json::from_str(&text).unwrap();
            assert!(
                allocated(&value) <= parsed_size(&text),
                "{}: {} > {}",
                &text[..20],
                allocated(&value),
                parsed_size(&text)
            );
        }
    }
}
