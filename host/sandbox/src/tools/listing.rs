//! Listings of typed tools: a component's own description of its tools, from a section or from
//! calling it. Both are limited in size.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::{Parser, Payload};

use super::offload::cancellable;
use crate::schema::{Budget, EvaluationError, Schema, TEXT_MAX};
use skillhost_policy::disclosure::is_tool_name;

/// The custom section in which a component lists its tools, so that it need not run: a JSON array
/// of [`Tool`].
const SECTION: &str = "skillhost:tools";
/// The interface of a component that has tools.
pub(crate) const INTERFACE: &str = "skillhost:skill/tools@0.1.0";

/// The most tools of a component.
const TOOLS_MAX: usize = 128;
/// The most bytes of a tool's description.
const DESCRIPTION_MAX: usize = 16 << 10;
/// The most bytes of a component's listing.
const LISTING_MAX: usize = 512 << 10;
/// The most bytes of the section: a listing and the overhead of JSON.
const SECTION_MAX: usize = 2 * LISTING_MAX;

/// One typed tool, as shown to agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// 1 to 64 characters of a-z, A-Z, 0-9, `_` and `-`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Value,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What is known about a component's tools without running it.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolListing {
    /// The tools of its section; none if it exports no tools.
    Known(Vec<Tool>),
    /// It exports tools and has no section.
    Unlisted,
}

/// Reads a component's listing of tools, without compiling or running it.
///
/// # Errors
/// The bytes are not a component, or its section is not a valid listing within the limits.
pub async fn listing(component: Vec<u8>) -> Result<ToolListing, String> {
    let read = cancellable(move |cancelled| read(&component, &mut Budget::full(cancelled)));
    read.await.unwrap_or_else(|error| Err(format!("the host failed: {error}")))
}

/// Returns a component with a section that lists these tools. It replaces an existing section.
///
/// # Errors
/// The bytes are not a component.
pub fn with_listing(component: &[u8], tools: &[Tool]) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(tools).map_err(|error| error.to_string())?;
    let mut out = match sections(component)?.listing {
        Some((_, range)) => [&component[..range.start], &component[range.end..]].concat(),
        None => component.to_owned(),
    };
    CustomSection { name: SECTION.into(), data: json.into() }.append_to_component(&mut out);
    Ok(out)
}

/// Checks the invariants of tool listings and schemas on arbitrary bytes: the body of a fuzz
/// target, not part of the public API.
///
/// # Panics
/// An invariant does not hold.
#[cfg(feature = "fuzz")]
pub fn fuzz_listing(bytes: &[u8]) {
    let mut budget = Budget::quick();
    for component in [bytes.to_vec(), section_of(bytes)] {
        if let Ok(ToolListing::Known(tools)) = read(&component, &mut budget) {
            assert!(tools.len() <= TOOLS_MAX && tools.iter().all(|tool| is_tool_name(&tool.name)));
            if let Ok(again) = with_listing(&component, &tools) {
                assert_eq!(
                    read(&again, &mut Budget::quick()).unwrap_or(ToolListing::Unlisted),
                    ToolListing::Known(tools)
                );
            }
        }
    }
    if let Ok(value) = serde_json::from_slice::<[Value; 2]>(bytes) {
        // A schema and a value to validate.
        let quick = crate::schema::problems(&value[0], &value[1], &mut Budget::quick());
        assert!(
            quick.is_err()
                || quick == crate::schema::problems(&value[0], &value[1], &mut Budget::quick())
        );
    }
}

/// An empty component whose tool section has that content.
#[cfg(any(test, feature = "fuzz"))]
fn section_of(content: &[u8]) -> Vec<u8> {
    let mut out = b"\0asm\x0d\0\x01\0".to_vec();
    CustomSection { name: SECTION.into(), data: content.into() }.append_to_component(&mut out);
    out
}

fn read(component: &[u8], budget: &mut Budget<'_>) -> Result<ToolListing, String> {
    let Sections { listing, has_tools } = sections(component)?;
    let Some((content, _)) = listing else {
        return Ok(if has_tools { ToolListing::Unlisted } else { ToolListing::Known(Vec::new()) });
    };
    if content.len() > SECTION_MAX {
        return Err(format!(
            "its section {SECTION} has {} bytes, more than {SECTION_MAX}",
            content.len()
        ));
    }
    let tools: Vec<Tool> = serde_json::from_slice(content)
        .map_err(|error| format!("its section {SECTION} is not a listing of tools: {error}"))?;
    check_tools(&tools, budget).map_err(|stop| format!("its section {SECTION}: {stop}"))?;
    Ok(ToolListing::Known(tools))
}

/// What is read from a component's sections.
struct Sections<'a> {
    /// The listing, and the range of its section.
    listing: Option<(&'a [u8], std::ops::Range<usize>)>,
    has_tools: bool,
}

fn sections(component: &[u8]) -> Result<Sections<'_>, String> {
    let unreadable =
        |error: wasmparser::BinaryReaderError| format!("the component cannot be read: {error}");
    let mut found = Sections { listing: None, has_tools: false };
    let (mut parser, mut at) = (Parser::new(0), 0);
    if component.is_empty() {
        return Err("the component is empty".into());
    }
    while at < component.len() {
        let start = at;
        let wasmparser::Chunk::Parsed { consumed, payload } =
            parser.parse(&component[at..], true).map_err(unreadable)?
        else {
            return Err("the component is truncated".into());
        };
        at += consumed;
        match payload {
            Payload::Version { encoding: wasmparser::Encoding::Module, .. } => {
                return Err("this is a core module, not a component".into());
            }
            // Nested modules and components say nothing about this one: skip them.
            Payload::ModuleSection { unchecked_range, .. }
            | Payload::ComponentSection { unchecked_range, .. } => {
                at = unchecked_range.end;
                if at > component.len() {
                    return Err("the component is truncated".into());
                }
            }
            Payload::CustomSection(section) if section.name() == SECTION => {
                let earlier = found.listing.replace((section.data(), start..at));
                earlier
                    .map_or(Ok(()), |_| Err(format!("the component has two sections {SECTION}")))?;
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports {
                    found.has_tools |= export.map_err(unreadable)?.name.name == INTERFACE;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A tool as the component describes it: schemas are text.
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema: String,
    pub(crate) output_schema: Option<String>,
}

impl Offer {
    /// Parses its schemas, without checking whether they are acceptable.
    pub(crate) fn parse(self) -> Result<Tool, String> {
        let parse = |what: &str, text: &str| {
            serde_json::from_str(text).map_err(|error| {
                format!("the {what} schema of `{}` is not valid JSON: {error}", self.name)
            })
        };
        Ok(Tool {
            input_schema: parse("input", &self.input_schema)?,
            output_schema: self
                .output_schema
                .as_deref()
                .map(|text| parse("output", text))
                .transpose()?,
            name: self.name,
            description: self.description,
        })
    }

    fn sizes(&self) -> Sizes<'_> {
        Sizes {
            name: &self.name,
            description: self.description.len(),
            schemas: [self.input_schema.len(), self.output_schema.as_ref().map_or(0, String::len)],
        }
    }
}

/// Checks the names and sizes of a listing.
pub(crate) fn check_offers(offers: &[Offer]) -> Result<(), String> {
    check(offers.iter().map(Offer::sizes))
}

/// Checks a listing, including its schemas.
pub(crate) fn check_tools(tools: &[Tool], budget: &mut Budget<'_>) -> Result<(), EvaluationError> {
    let text = |schema: &Value| schema.to_string().len();
    let sizes =
        |tool: &Tool| [text(&tool.input_schema), tool.output_schema.as_ref().map_or(0, text)];
    let sizes: Vec<[usize; 2]> = tools.iter().map(sizes).collect();
    let sized = tools.iter().zip(&sizes);
    check(sized.map(|(tool, schemas)| Sizes {
        name: &tool.name,
        description: tool.description.len(),
        schemas: *schemas,
    }))
    .map_err(EvaluationError::Refused)?;
    for tool in tools {
        for (what, schema) in
            [("input", Some(&tool.input_schema)), ("output", tool.output_schema.as_ref())]
        {
            let Some(schema) = schema else { continue };
            Schema::accept(schema, budget).map_err(|stop| match stop {
                EvaluationError::Refused(why) => EvaluationError::Refused(format!(
                    "the {what} schema of `{}` is not accepted: {why}",
                    tool.name
                )),
                other => other,
            })?;
        }
    }
    Ok(())
}

struct Sizes<'a> {
    name: &'a str,
    description: usize,
    schemas: [usize; 2],
}

fn check<'a>(tools: impl ExactSizeIterator<Item = Sizes<'a>>) -> Result<(), String> {
    if tools.len() > TOOLS_MAX {
        return Err(format!("it lists {} tools, more than {TOOLS_MAX}", tools.len()));
    }
    let mut names = HashSet::new();
    let mut total = 0;
    for Sizes { name, description, schemas } in tools {
        if !is_tool_name(name) {
            let start: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(format!(
                "`{start}` is not a tool name: 1 to 64 characters of a-z, A-Z, 0-9, `_` and `-`"
            ));
        }
        if !names.insert(name) {
            return Err(format!("it lists two tools `{name}`"));
        }
        if description > DESCRIPTION_MAX {
            return Err(format!(
                "the description of `{name}` has {description} bytes, more than {DESCRIPTION_MAX}"
            ));
        }
        if let Some(schema) = schemas.into_iter().find(|bytes| *bytes > TEXT_MAX) {
            return Err(format!("a schema of `{name}` has {schema} bytes, more than {TEXT_MAX}"));
        }
        total += name.len() + description + schemas.iter().sum::<usize>();
        if total > LISTING_MAX {
            return Err(format!("its listing has more than {LISTING_MAX} bytes"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> Tool {
        Tool {
            name: name.into(),
            description: "Adds.".into(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
        }
    }

    fn quick(component: &[u8]) -> Result<ToolListing, String> {
        read(component, &mut Budget::quick())
    }

    #[test]
    fn with_listing_replaces_the_section() {
        let empty = b"\0asm\x0d\0\x01\0";
        assert_eq!(quick(empty), Ok(ToolListing::Known(Vec::new())));
        let one = with_listing(empty, &[tool("one")]).unwrap();
        assert_eq!(quick(&one), Ok(ToolListing::Known(vec![tool("one")])));
        let other = with_listing(&one, &[tool("other")]).unwrap();
        assert_eq!(quick(&other), Ok(ToolListing::Known(vec![tool("other")])));
        assert_eq!(other.len(), one.len() + 2);
    }

    #[test]
    fn component_with_tools_and_no_section_is_unlisted() {
        let echo = wat::parse_str(include_str!("../../../../tests/guests/echo.wat")).unwrap();
        assert_eq!(quick(&echo), Ok(ToolListing::Unlisted));
        assert_eq!(
            quick(&with_listing(&echo, &[tool("echo")]).unwrap()),
            Ok(ToolListing::Known(vec![tool("echo")]))
        );
    }

    #[test]
    fn invalid_sections_are_refused() {
        let refused = |content: &[u8]| quick(&section_of(content)).unwrap_err();
        assert!(refused(b"{").contains("not a listing"));
        assert!(
            refused(br#"[{"name": "a b", "description": "", "input_schema": true}]"#)
                .contains("not a tool name")
        );
        assert!(
            refused(br#"[{"name": "a", "description": "", "input_schema": {"type": 1}}]"#)
                .contains("input schema of `a`")
        );
        assert!(
            refused(
                br#"[{"name": "a", "description": "", "input_schema": true, "annotations": {}}]"#
            )
            .contains("unknown field")
        );
        assert!(refused(&vec![b' '; SECTION_MAX + 1]).contains("more than"));
        let described = |bytes| {
            format!(
                r#"[{{"name": "a", "description": "{}", "input_schema": true}}]"#,
                "x".repeat(bytes)
            )
        };
        assert!(quick(&section_of(described(DESCRIPTION_MAX).as_bytes())).is_ok());
        assert!(
            refused(described(DESCRIPTION_MAX + 1).as_bytes())
                .contains("the description of `a` has 16385 bytes")
        );
        let twice = [section_of(b"[]"), section_of(b"[]")[8..].to_vec()].concat();
        assert!(quick(&twice).unwrap_err().contains("two sections"));
        assert!(quick(b"").is_err());
        assert!(quick(b"\0asm\x01\0\0\0").unwrap_err().contains("core module"));
    }
}
