//! Checks the fields of the frontmatter against their rules, and reads them as far as that is safe.

use std::collections::BTreeSet;
use std::ops::Range;

use super::findings::{Findings, abbreviate, as_yaml, quoted};
use super::yaml::{Node, Value};
use super::{
    MAX_DESCRIPTION, Manifest, client, permission_keys, requires, rules, schema, settings, tools,
};
use crate::diagnostic::{Span, is_hidden};
use crate::limits::Limit;

/// The most characters of a name.
pub(super) const MAX_NAME: usize = 64;
/// The most characters of `compatibility`.
pub(super) const MAX_COMPATIBILITY: usize = 500;

/// What the checks need in addition to the values.
pub(super) struct Context<'a> {
    pub(super) source: &'a str,
    pub(super) folder: &'a str,
    /// The opening fence. Diagnostics about missing fields point there.
    pub(super) fence: Range<usize>,
}

/// Reads the map of fields. The second value is the span of `metadata.component`.
pub(super) fn read(
    fields: &[(Node, Node)],
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> (Manifest, Option<Span>) {
    let mut manifest = Manifest::default();
    let mut component_span = None;
    let (mut name, mut description) = (None, None);
    for (key, value) in fields {
        // A field that is not in the table is unknown.
        match key.text().filter(|key| schema::is_field(key)) {
            Some("name") => name = string("name", value, findings),
            Some("description") => description = string("description", value, findings),
            Some("license") => {
                manifest.license = string("license", value, findings);
                if manifest.license.as_ref().is_none_or(|l| l.trim().is_empty())
                    && !value.is_collection()
                {
                    let message = "`license` is empty";
                    findings.add(
                        &rules::LICENSE_EMPTY,
                        value_or_key(key, value),
                        message,
                        Some("license: Apache-2.0".into()),
                    );
                }
            }
            Some("compatibility") => {
                manifest.compatibility = string("compatibility", value, findings);
                check_compatibility(
                    manifest.compatibility.as_deref().unwrap_or(""),
                    key,
                    value,
                    findings,
                );
            }
            Some("metadata") => {
                component_span = metadata(value, context.source, &mut manifest, findings)
            }
            Some("allowed-tools") => {
                manifest.allowed_tools =
                    Some(tools::read(tools::Field::Allowed, value, context.source, findings))
            }
            Some("disallowed-tools") => {
                manifest.disallowed_tools =
                    tools::read(tools::Field::Disallowed, value, context.source, findings)
            }
            _ if client::read((key, value), context.source, &mut manifest, findings) => {}
            _ => unknown(key, value, context.source, findings),
        }
    }
    let place = |field: &str| {
        fields.iter().find(|(k, _)| k.text() == Some(field)).map(|(k, v)| value_or_key(k, v))
    };
    manifest.name = check_name(name.as_deref(), place("name"), context, findings);
    manifest.description =
        check_description(description.as_deref(), place("description"), context, findings);
    (manifest, component_span)
}

/// Checks the name. Returns it if it is valid, otherwise the folder's name.
pub(super) fn check_name(
    name: Option<&str>,
    at: Option<Range<usize>>,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> String {
    let at = at.unwrap_or_else(|| context.fence.clone());
    let folder = context.folder;
    let Some(name) = name.filter(|n| !n.trim().is_empty()) else {
        let fix = Some(format!("name: {}", suggested_name(folder)));
        findings.add(&rules::NAME_MISSING, at, "the skill has no `name`", fix);
        return folder.to_owned();
    };
    let characters = name.chars().count();
    let too_long = characters > MAX_NAME;
    if too_long {
        let message = format!("the name has {characters} characters (limit {MAX_NAME})");
        findings.add(
            &rules::NAME_LENGTH,
            at.clone(),
            message,
            Some(format!("name: {}", suggested_name(name))),
        );
    }
    let well_formed = has_name_characters(name);
    if !well_formed {
        let message =
            format!("invalid skill name `{}`; try `{}`", abbreviate(name), suggested_name(name));
        findings.add(
            &rules::NAME_PATTERN,
            at.clone(),
            message,
            Some(format!("name: {}", suggested_name(name))),
        );
    }
    check_hidden("name", name, &at, findings);
    if name.trim() != folder {
        let message = format!(
            "the name `{}` differs from the folder's name `{}`",
            abbreviate(name),
            abbreviate(folder)
        );
        let fix = match is_name(folder) {
            true => format!("name: {folder}"),
            false => format!("rename the folder to `{}`", suggested_name(name)),
        };
        findings.add(&rules::NAME_FOLDER, at, message, Some(fix));
    }
    if well_formed && !too_long { name.to_owned() } else { folder.to_owned() }
}

/// Checks the description. Returns it, or an empty one.
pub(super) fn check_description(
    description: Option<&str>,
    at: Option<Range<usize>>,
    context: &Context<'_>,
    findings: &mut Findings<'_>,
) -> String {
    let at = at.unwrap_or_else(|| context.fence.clone());
    let description = description.map(str::trim).unwrap_or_default();
    let characters = description.chars().count();
    check_hidden("description", description, &at, findings);
    if characters == 0 {
        let fix = Some("description: What it does, and when to use it".into());
        findings.add(&rules::DESCRIPTION_MISSING, at, "the skill has no `description`", fix);
    } else if characters > MAX_DESCRIPTION {
        let message =
            format!("the description has {characters} characters (limit {MAX_DESCRIPTION})");
        findings.add(
            &rules::DESCRIPTION_LENGTH,
            at,
            message,
            Some(format!("shorten it by {} characters", characters - MAX_DESCRIPTION)),
        );
    }
    description.to_owned()
}

/// Reports characters that an agent reads and a person does not see, or sees elsewhere.
pub(super) fn check_hidden(
    field: &str,
    text: &str,
    at: &Range<usize>,
    findings: &mut Findings<'_>,
) {
    /// The most characters that a message lists.
    const MAX_LISTED: usize = 5;
    let characters: Vec<char> = text.chars().collect();
    // Nothing but emoji and the like is joined on both sides.
    let is_symbol = |at: Option<usize>| {
        at.and_then(|at| characters.get(at))
            .is_some_and(|c| *c > '\u{2000}' && !c.is_alphanumeric() && !is_hidden(*c))
    };
    let is_in_emoji = |at: usize| is_symbol(at.checked_sub(1)) && is_symbol(Some(at + 1));
    let hidden = |(at, c): &(usize, &char)| {
        is_hidden(**c) && !c.is_control() && !(**c == '\u{200d}' && is_in_emoji(*at))
    };
    let found: Vec<char> = characters.iter().enumerate().filter(hidden).map(|(_, c)| *c).collect();
    if found.is_empty() {
        return;
    }
    let kinds: BTreeSet<char> = found.iter().copied().collect();
    let listed: Vec<String> =
        kinds.iter().take(MAX_LISTED).map(|c| format!("U+{:04X}", u32::from(*c))).collect();
    let more = if kinds.len() > MAX_LISTED { ", ..." } else { "" };
    let message = format!(
        "`{field}` contains {} invisible or reordering character{}: {}{more}",
        found.len(),
        if found.len() == 1 { "" } else { "s" },
        listed.join(", ")
    );
    findings.add(&rules::HIDDEN_CHARACTERS, at.clone(), message, Some("delete them".into()));
}

fn check_compatibility(text: &str, key: &Node, value: &Node, findings: &mut Findings<'_>) {
    let characters = text.trim().chars().count();
    let at = value_or_key(key, value);
    if characters > MAX_COMPATIBILITY {
        let message =
            format!("`compatibility` has {characters} characters (limit {MAX_COMPATIBILITY})");
        findings.add(
            &rules::COMPATIBILITY_LENGTH,
            at,
            message,
            Some(format!("shorten it by {} characters", characters - MAX_COMPATIBILITY)),
        );
    } else if characters == 0 && !value.is_collection() {
        let fix = Some(
            "remove the field, or write what the skill needs: compatibility: Needs python3".into(),
        );
        findings.add(&rules::COMPATIBILITY_LENGTH, at, "`compatibility` is empty", fix);
    }
}

/// Reads a field that should be a string. Reads a number or a boolean as written, and ignores a list
/// or a map.
fn string(field: &str, value: &Node, findings: &mut Findings<'_>) -> Option<String> {
    if value.is_null() || value.is_string() {
        return value.text().map(str::to_owned);
    }
    let fix = match value.text() {
        Some(text) => format!("{field}: {}", quoted(text)),
        None => format!("write one string: {field}: \"...\""),
    };
    findings.add(
        &rules::FIELD_TYPE,
        value.at.clone(),
        format!("`{field}` must be a string, not {}", value.kind()),
        Some(fix),
    );
    value.text().map(str::to_owned)
}

/// Reads `metadata` and the keys in it that the host uses. Returns the span of `component`.
fn metadata(
    value: &Node,
    source: &str,
    manifest: &mut Manifest,
    findings: &mut Findings<'_>,
) -> Option<Span> {
    let mut component_span = None;
    let Value::Map(pairs) = &*value.value else {
        let fix = Some("metadata:\n  version: \"1.0\"".into());
        findings.add(
            &rules::METADATA_TYPE,
            value.at.clone(),
            format!("`metadata` must be a map, not {}", value.kind()),
            fix,
        );
        return None;
    };
    for (key, value) in pairs {
        let Some(name) = key.text() else {
            findings.add(
                &rules::METADATA_VALUE,
                key.at.clone(),
                format!("a key of `metadata` must be a string, not {}", key.kind()),
                None,
            );
            continue;
        };
        let at = value_or_key(key, value);
        let limit = Limit::from_key(name).filter(|l| l.in_manifest());
        if name != "component"
            && limit.is_none()
            && let Some(meant) = permission_keys::misspelt_metadata(name)
        {
            let place = if Limit::from_key(meant).is_some() { "" } else { ", at the top level" };
            report_misspelt(
                name,
                key,
                &format!("`{meant}`{place}"),
                format!("write `{meant}:`{place}"),
                findings,
            );
        }
        let understood = match (name, limit) {
            ("component", _) => {
                component_span = Some(findings.span(at.clone()));
                manifest.component = component(value, at.clone(), findings);
                manifest.component.is_some()
            }
            ("settings", _) => read_settings(value, at.clone(), source, manifest, findings),
            ("requires", _) => read_requires(value, at.clone(), source, manifest, findings),
            (_, Some(limit)) => read_limit(limit, value, at.clone(), manifest, findings),
            _ => true,
        };
        if understood && !value.is_string() {
            let message =
                format!("`metadata.{}` must be a string, not {}", abbreviate(name), value.kind());
            let fix = match value.text() {
                Some(text) => format!("  {name}: {}", quoted(text)),
                None if value.is_null() => format!("  {name}: \"\""),
                None => "write it as one string, or move it to a separate file".into(),
            };
            findings.add(&rules::METADATA_VALUE, at, message, Some(fix));
        }
        if let Some(text) = value.text() {
            manifest.metadata.insert(name.to_owned(), text.to_owned());
        }
    }
    component_span
}

/// Reads one of the limits that a skill can set. Returns whether the value is valid.
fn read_limit(
    limit: Limit,
    value: &Node,
    at: Range<usize>,
    manifest: &mut Manifest,
    findings: &mut Findings<'_>,
) -> bool {
    let key = limit.key();
    let number = match value.text().map(str::trim) {
        None | Some("") => Err(format!(
            "`metadata.{key}` is {}",
            if value.is_string() { "empty" } else { value.kind() }
        )),
        Some(text) => limit.parse(text).map_err(|message| {
            format!("`metadata.{key}`: {}", message.replace(text, &abbreviate(text)))
        }),
    };
    let example = match limit {
        Limit::Timeout => "30s",
        Limit::Memory => "256MiB",
        _ => "\"2000000000\"",
    };
    match number {
        Ok(number) => manifest.limits.insert(limit, number).is_none(),
        Err(message) => {
            findings.add(&rules::METADATA_LIMIT, at, message, Some(format!("  {key}: {example}")));
            false
        }
    }
}

/// Reads the settings that the skill declares. Returns whether they are valid.
fn read_settings(
    value: &Node,
    at: Range<usize>,
    source: &str,
    manifest: &mut Manifest,
    findings: &mut Findings<'_>,
) -> bool {
    let Some(text) = value.text() else {
        let message = "`metadata.settings`: expected one line for each setting";
        let fix = "  settings: |\n    base-url: string = https://example.com";
        findings.add(&rules::METADATA_SETTINGS, at, message, Some(fix.into()));
        return false;
    };
    match settings::parse(text) {
        Ok(declared) => {
            manifest.settings = declared;
            true
        }
        Err(settings::InvalidSetting { line, why, fix }) => {
            let at = line.and_then(|line| line_of(text, line, &value.at, source)).unwrap_or(at);
            let message = format!("`metadata.settings`: {why}");
            findings.add(&rules::METADATA_SETTINGS, at, message, fix);
            false
        }
    }
}

/// Reads what the skill requires. Returns whether it is valid.
fn read_requires(
    value: &Node,
    at: Range<usize>,
    source: &str,
    manifest: &mut Manifest,
    findings: &mut Findings<'_>,
) -> bool {
    let fix = || Some("  requires: |\n    other-skill ^1.2\n    command jq".to_owned());
    let Some(text) = value.text() else {
        let message = "`metadata.requires`: expected one line for each skill, command or package";
        findings.add(&rules::METADATA_REQUIRES, at, message, fix());
        return false;
    };
    match requires::parse(text) {
        Ok(found) => {
            manifest.requires = found;
            true
        }
        Err(requires::InvalidRequired { line, why }) => {
            let at = line.and_then(|line| line_of(text, line, &value.at, source)).unwrap_or(at);
            let message = format!("`metadata.requires`: {why}");
            findings.add(&rules::METADATA_REQUIRES, at, message, fix());
            false
        }
    }
}

/// Returns the place of a line of a block scalar. `None` if the text is written in another form, in
/// which its lines do not occur.
fn line_of(text: &str, number: usize, value: &Range<usize>, source: &str) -> Option<Range<usize>> {
    let wanted = text.lines().nth(number)?.trim();
    let same_before = text.lines().take(number).filter(|line| line.trim() == wanted).count();
    let written = source.get(value.clone())?;
    let mut start = value.start;
    let mut lines = written.split_inclusive('\n').map(|line| {
        let from = start + line.len() - line.trim_start().len();
        start += line.len();
        (from, line.trim())
    });
    let (from, line) = lines.by_ref().filter(|(_, line)| *line == wanted).nth(same_before)?;
    Some(from..from + line.len())
}

fn component(value: &Node, at: Range<usize>, findings: &mut Findings<'_>) -> Option<String> {
    let path = value.text().unwrap_or_default();
    let inside = !path.contains(['\\', ':'])
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if inside {
        return Some(path.to_owned());
    }
    let message = format!("`{}` is not a path in the skill", abbreviate(path));
    findings.add(&rules::METADATA_COMPONENT, at, message, Some("  component: skill.wasm".into()));
    None
}

fn unknown(key: &Node, value: &Node, source: &str, findings: &mut Findings<'_>) {
    let Some(name) = key.text() else {
        findings.add(
            &rules::UNKNOWN_FIELD,
            key.at.clone(),
            format!("a field name must be a string, not {}", key.kind()),
            None,
        );
        return;
    };
    if let Some(meant) = permission_keys::misspelt_field(name) {
        let written = source.get(value.at.clone()).filter(|t| !t.contains('\n')).unwrap_or("...");
        return report_misspelt(
            name,
            key,
            &format!("`{meant}`"),
            format!("{meant}: {}", abbreviate(written)),
            findings,
        );
    }
    let (message, fix) = match near_field(name) {
        Some(field) => {
            let written =
                source.get(value.at.clone()).filter(|t| !t.contains('\n')).unwrap_or("...");
            (
                format!("unknown field `{}`; did you mean `{field}`?", abbreviate(name)),
                format!("{field}: {}", abbreviate(written)),
            )
        }
        None => {
            let shown_name = abbreviate(name);
            let fix = match value.text() {
                Some(text) if text.len() <= 60 => {
                    format!("move it to `metadata:`, as\n  {shown_name}: {}", as_yaml(text))
                }
                _ => format!(
                    "remove it, or move it to `metadata:` as a string, `{shown_name}: \"...\"`"
                ),
            };
            (format!("`{shown_name}` is not a field of the specification and is ignored"), fix)
        }
    };
    findings.add(&rules::UNKNOWN_FIELD, key.at.clone(), message, Some(fix));
}

/// Returns the field that an unknown one probably means, if that field grants nothing.
pub(super) fn near_field(name: &str) -> Option<&'static str> {
    let like = name.to_ascii_lowercase();
    schema::keys(false).find(|f| strsim::damerau_levenshtein(f, &like) <= f.len() / 5)
}

/// Reports a misspelt permission key. It might restrict the skill, so the skill is granted nothing.
fn report_misspelt(name: &str, key: &Node, meant: &str, fix: String, findings: &mut Findings<'_>) {
    let message = format!(
        "`{}` looks like a misspelt {meant}, so the skill is granted nothing",
        abbreviate(name)
    );
    findings.add(&rules::PERMISSION_KEY, key.at.clone(), message, Some(fix));
}

/// Returns the smallest frontmatter for a folder.
pub fn template(folder: &str) -> String {
    format!(
        "---\nname: {}\ndescription: What it does, and when to use it\n---",
        suggested_name(folder)
    )
}

/// Returns the range of the value, or of the key if the value is empty.
pub(super) fn value_or_key(key: &Node, value: &Node) -> Range<usize> {
    if value.at.is_empty() { key.at.clone() } else { value.at.clone() }
}

/// Checks whether a text is a valid name of a skill.
pub fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && has_name_characters(name)
}

/// Checks for a-z and 0-9, with single hyphens inside.
fn has_name_characters(name: &str) -> bool {
    name.split('-').all(|part| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    })
}

/// Checks whether a text is a valid name that YAML reads as text without quotes.
pub(super) fn is_plain_name(name: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    is_name(name) && name.starts_with(|c: char| c.is_ascii_lowercase()) && !WORDS.contains(&name)
}

/// Derives a valid skill name from a text; a valid name is returned unchanged.
pub fn suggested_name(text: &str) -> String {
    let spaced: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let parts: Vec<&str> = spaced.split('-').filter(|p| !p.is_empty()).collect();
    let joined = parts.join("-");
    let name = joined[..joined.len().min(64)].trim_end_matches('-');
    if name.is_empty() { "my-skill".into() } else { name.into() }
}
