//! Parses SKILL.md into a [`Manifest`]. No other code knows its syntax.
//!
//! `frontmatter` finds the fences, and `yaml` parses the text between them. `fields`, `client`,
//! `permission_keys` and `tools` check the result against [`rules`], and `recover` reads broken
//! files. Parsing is lenient if there is a safe interpretation, and strict otherwise. The
//! [`LoadEffect`](rules::LoadEffect) of each rule says which.

mod client;
mod fields;
mod findings;
pub mod fix;
mod frontmatter;
mod permission_keys;
mod recover;
pub mod requires;
pub mod rules;
mod schema;
pub mod settings;
mod tools;
mod yaml;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Span};
use crate::limits::Limit;
use fields::Context;
pub use fields::{is_name, suggested_name, template};
use findings::Findings;
pub use findings::abbreviate;
use frontmatter::{BOM, Fences, lines_from};
use rules::LoadEffect;
pub use schema::schema;
pub use tools::line as allowed_tools_line;
use yaml::{Broken, BrokenKind, Value};

/// The most bytes of frontmatter. The longest in use has 6 KiB.
const MAX_FRONTMATTER: usize = 64 << 10;
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 1024;
/// The most lines of instructions that the specification advises.
const MAX_BODY_LINES: usize = 500;

/// The parsed frontmatter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Manifest {
    /// The declared name if it is valid, otherwise the folder's name.
    pub name: String,
    /// The description, trimmed. 1 to 1024 characters if the skill follows the specification.
    pub description: String,
    /// An SPDX expression or the name of a file, as written.
    pub license: Option<String>,
    /// 1 to 500 characters.
    pub compatibility: Option<String>,
    /// Metadata. Scalars that are not strings are kept as written.
    pub metadata: BTreeMap<String, String>,
    /// The entries of `allowed-tools`; `None` if the key is absent, empty if it requests nothing.
    pub allowed_tools: Option<Vec<ToolEntry>>,
    /// The entries of `disallowed-tools`: denied to the skill, even if the policy allows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<ToolEntry>,
    /// `metadata.component`: the path of the WASI component in the skill.
    pub component: Option<String>,
    /// `metadata.timeout`, `.memory` and `.fuel`: the most that the skill needs.
    pub limits: BTreeMap<Limit, u64>,
    /// `metadata.settings`: the settings that the skill declares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<settings::Setting>,
    /// `metadata.requires`: other skills, commands and packages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<requires::Required>,
    /// Whether only the client's user may start the skill, as a prompt: `disable-model-invocation`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
    /// Whether only agents may start the skill, and it is no prompt: `user-invocable: false`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agent_only: bool,
    /// The description of the prompt's argument: `argument-hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// Whether there is no valid frontmatter: it is broken or missing, or the skill is a single file.
    /// Then at most the name, the description and who may start the skill are known. Such a skill is
    /// instructions only: it has no programs, requests nothing (`allowed_tools` is an empty list) and
    /// is granted nothing.
    pub recovered: bool,
    /// Whether a key looks like a misspelt permission key. Such a skill runs, but is granted nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ungranted: bool,
}

impl Manifest {
    /// Checks whether the skill is granted nothing, whatever a policy allows, because it is unknown
    /// what it requests.
    pub fn is_granted_nothing(&self) -> bool {
        self.recovered || self.ungranted
    }

    /// Returns the version of the skill, if it has one that can be compared.
    pub fn version(&self) -> Option<semver::Version> {
        self.metadata.get("version").and_then(|text| requires::version(text))
    }

    /// Returns the other skills that it requires, with the versions that fit.
    pub fn required_skills(&self) -> impl Iterator<Item = (&str, &semver::VersionReq)> {
        self.requires.iter().filter_map(|one| match one {
            requires::Required::Skill { name, version } => Some((name.as_str(), version)),
            _ => None,
        })
    }

    /// Returns the tags in `metadata.category` and `metadata.tags`, in lower case.
    pub fn tags(&self) -> impl Iterator<Item = String> {
        let values = ["category", "tags"].into_iter().filter_map(move |key| self.metadata.get(key));
        let words = values.flat_map(|value| value.split([',', ';', '\n']));
        words.map(|word| word.trim().to_lowercase()).filter(|word| !word.is_empty())
    }

    /// Returns what remains of a skill that is instructions only.
    #[must_use]
    pub fn instructions_only(self) -> Manifest {
        let Manifest { name, description, user_only, agent_only, .. } = self;
        Manifest {
            name,
            description,
            user_only,
            agent_only,
            allowed_tools: Some(Vec::new()),
            recovered: true,
            ..Manifest::default()
        }
    }
}

/// One entry of `allowed-tools` or `disallowed-tools`, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolEntry {
    /// The entry as written, trimmed: `Bash(git:*)`.
    pub text: String,
    /// Its place in SKILL.md.
    pub span: Option<Span>,
}

/// The result of parsing a SKILL.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillMd {
    /// The manifest; `None` if the file violates a rule that prevents loading.
    pub manifest: Option<Manifest>,
    /// The problems, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The text of the file, which the diagnostics point into. Invalid UTF-8 is replaced.
    pub source: String,
    /// Where the instructions start in `source`.
    pub body_offset: usize,
    /// The span of `metadata.component`.
    pub component_span: Option<Span>,
}

/// Parses a SKILL.md. Pure, and never panics.
///
/// `folder` is the name of its folder, and `file` its name in diagnostics.
pub fn parse(bytes: &[u8], folder: &str, file: &str) -> SkillMd {
    let source = String::from_utf8_lossy(bytes);
    let mut findings = Findings::new(file, &source);
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let fix = "iconv -f UTF-16 -t UTF-8 SKILL.md > SKILL.utf8 && mv SKILL.utf8 SKILL.md";
        findings.add(
            &rules::FRONTMATTER_UTF8,
            None,
            "the file is UTF-16, not UTF-8",
            Some(fix.into()),
        );
        return finish(
            Manifest { name: folder.to_owned(), ..Manifest::default() },
            None,
            0,
            findings,
            &source,
        );
    }
    let fences = frontmatter::find(&source, folder, &mut findings);
    let body_offset =
        fences.as_ref().map_or(if source.starts_with(BOM) { BOM.len() } else { 0 }, |f| f.body);
    check_encoding(bytes, &source, body_offset, &mut findings);
    check_body(&source, body_offset, &mut findings);

    let (manifest, component_span) = match &fences {
        Some(fences) => read_frontmatter(&source, fences, folder, &mut findings),
        None => {
            let description = summary(&source[body_offset..]);
            fields::check_hidden(
                "description",
                &description,
                &(body_offset..body_offset),
                &mut findings,
            );
            (Manifest { name: folder.to_owned(), description, ..Manifest::default() }, None)
        }
    };
    finish(manifest, component_span, body_offset, findings, &source)
}

/// Describes instructions without frontmatter by their first paragraph, or else their first heading.
fn summary(instructions: &str) -> String {
    let lines = || instructions.lines().map(str::trim);
    let is_text = |line: &&str| line.starts_with(|c: char| c.is_alphanumeric());
    let paragraph = lines().skip_while(|line| !is_text(line)).take_while(|line| !line.is_empty());
    let paragraph: Vec<&str> = paragraph.take(MAX_DESCRIPTION).collect();
    let text = match paragraph.is_empty() {
        true => lines().find(|line| line.starts_with('#')).unwrap_or_default().to_owned(),
        false => paragraph.join(" "),
    };
    text.trim_start_matches(['#', ' ']).chars().take(MAX_DESCRIPTION).collect()
}

/// Applies the worst effect of all findings to the manifest.
fn finish(
    manifest: Manifest,
    component_span: Option<Span>,
    body_offset: usize,
    mut findings: Findings<'_>,
    source: &str,
) -> SkillMd {
    let manifest = match findings.effect() {
        LoadEffect::Loads => Some(manifest),
        LoadEffect::Ungranted => {
            Some(Manifest { allowed_tools: Some(Vec::new()), ungranted: true, ..manifest })
        }
        LoadEffect::GrantsNothing => {
            let message =
                "only the name and description of the skill are loaded, and it is granted nothing";
            findings.add(&rules::RECOVERED, None, message, None);
            Some(manifest.instructions_only())
        }
        LoadEffect::Refused => None,
    };
    SkillMd {
        manifest,
        diagnostics: findings.into_sorted(),
        source: source.to_owned(),
        body_offset,
        component_span,
    }
}

fn read_frontmatter(
    source: &str,
    fences: &Fences,
    folder: &str,
    findings: &mut Findings<'_>,
) -> (Manifest, Option<Span>) {
    let context = Context { source, folder, fence: fences.open.clone() };
    if fences.yaml.len() > MAX_FRONTMATTER {
        let message =
            format!("the frontmatter has {} bytes (limit {MAX_FRONTMATTER})", fences.yaml.len());
        findings.add(
            &rules::FRONTMATTER_SIZE,
            fences.open.clone(),
            message,
            Some("move text below the second `---`".into()),
        );
        return Default::default();
    }
    if findings.effect() == LoadEffect::Refused {
        return Default::default();
    }
    let document = match yaml::read(source, fences.yaml.clone()) {
        Ok(document) => document,
        Err(broken) => {
            report_broken(source, fences.yaml.clone(), broken, findings);
            return (recovered(fences.yaml.clone(), &context, findings), None);
        }
    };
    for key in &document.duplicates {
        let message = format!("duplicate key `{}`", abbreviate(key.text().unwrap_or_default()));
        findings.add(
            &rules::DUPLICATE_KEY,
            key.at.clone(),
            message,
            Some("remove one of the two".into()),
        );
    }
    match document.root.as_ref().map(|root| (root, &*root.value)) {
        Some((_, Value::Map(fields))) => fields::read(fields, &context, findings),
        None => fields::read(&[], &context, findings),
        Some((root, _)) => {
            let message = format!("the frontmatter must be a map, not {}", root.kind());
            findings.add(
                &rules::YAML_MAP,
                root.at.clone(),
                message,
                Some(format!("name: {folder}")),
            );
            (recovered(fences.yaml.clone(), &context, findings), None)
        }
    }
}

fn recovered(part: Range<usize>, context: &Context<'_>, findings: &mut Findings<'_>) -> Manifest {
    let recover::Recovered { name, description, manifest } =
        recover::read(context.source, part, findings);
    let at = |line: &Option<recover::Line>| line.as_ref().map(|l| l.at.clone());
    Manifest {
        name: fields::check_name(
            name.as_ref().map(|n| n.text.as_str()),
            at(&name),
            context,
            findings,
        ),
        description: fields::check_description(
            description.as_ref().map(|d| d.text.as_str()),
            at(&description),
            context,
            findings,
        ),
        ..manifest
    }
}

fn report_broken(source: &str, part: Range<usize>, broken: Broken, findings: &mut Findings<'_>) {
    let (rule, fix) = match broken.kind {
        BrokenKind::Bounds => (&rules::YAML_BOUNDS, "shorten it, and nest it less"),
        BrokenKind::Feature => (&rules::YAML_FEATURE, "write it in plain YAML"),
        BrokenKind::Syntax | BrokenKind::UnknownAlias => {
            let (field, broken) = yaml::blame(source, part.clone()).unwrap_or((part, broken));
            return report_syntax(source, field, broken, findings);
        }
    };
    findings.add(rule, broken.at, broken.message, Some(fix.into()));
}

fn report_syntax(source: &str, field: Range<usize>, broken: Broken, findings: &mut Findings<'_>) {
    let line_at = |offset: usize| {
        let start = source[..offset].rfind('\n').map_or(0, |i| i + 1);
        lines_from(source, start).next().map_or("", |l| &source[l])
    };
    if let Some(tab) = yaml::tab_in_indentation(source, field.clone()) {
        let fix = line_at(tab).trim_end().replace('\t', "  ");
        let message = "invalid YAML: a tab in the indentation";
        return findings.add(&rules::YAML_SYNTAX, tab..tab + 1, message, Some(fix));
    }
    // The parser reports an open quote or bracket where it misses the end.
    let opened = yaml::unclosed(source, field.clone());
    let at = match opened {
        Some(opened) => opened..opened + 1,
        None => broken.at,
    };
    let line = line_at(at.start);
    let (key, value) = line.split_once(':').map_or(("", ""), |(key, value)| (key, value.trim()));
    let holds_colon = value.contains(": ") && !value.starts_with(['"', '\'', '|', '>', '[', '{']);
    let special = value
        .chars()
        .next()
        .filter(|c| "*&!%@`".contains(*c) || "[{".contains(*c) && value.contains([']', '}']));
    let message = match special {
        _ if holds_colon => {
            format!("the value of `{}` holds `: ` and is not in quotes", abbreviate(key.trim()))
        }
        Some(c) => {
            format!(
                "the value of `{}` starts with `{c}` and is not in quotes",
                abbreviate(key.trim())
            )
        }
        None => match opened {
            Some(_) => format!("invalid YAML: the `{}` is not closed", &source[at.clone()]),
            None => format!("invalid YAML: {}", broken.message),
        },
    };
    // The fix of one line would drop the others.
    let is_one_line = !source[field].trim_end().contains('\n');
    let fix = match opened {
        Some(_) if !is_one_line => None,
        _ => corrected(key, value, holds_colon || special.is_some()),
    };
    let is_change = |fix: &String| {
        let solid = |text: &str| text.split_whitespace().collect::<String>();
        solid(fix) != solid(line)
    };
    findings.add(&rules::YAML_SYNTAX, at, message, fix.filter(is_change));
}

/// Returns the corrected line for common mistakes: an open bracket, or a value that needs quotes.
fn corrected(key: &str, value: &str, needs_quotes: bool) -> Option<String> {
    let open = |start, end| value.starts_with(start) && !value.contains(end);
    if open('[', ']') {
        Some(format!("{key}: {value}]"))
    } else if open('{', '}') {
        Some(format!("{key}: {value}}}"))
    } else if !needs_quotes && !value.starts_with(['"', '\'']) {
        None
    } else if value.chars().count() > 80 {
        Some(format!("quote the value, or write\n{key}: >-\n  followed by the text, indented"))
    } else {
        let text = value.trim_matches(if value.starts_with('\'') { '\'' } else { '"' });
        Some(format!("{key}: {}", findings::quoted(text)))
    }
}

fn check_encoding(bytes: &[u8], source: &str, body: usize, findings: &mut Findings<'_>) {
    if source.starts_with(BOM) {
        findings.add(
            &rules::BYTE_ORDER_MARK,
            0..BOM.len(),
            "the file starts with a byte order mark",
            Some("sed -i '1s/^\\xEF\\xBB\\xBF//' SKILL.md".into()),
        );
    }
    if let Some(first) = source.find("\r\n") {
        let (crlf, all) = (source.matches("\r\n").count(), source.matches('\n').count());
        let message = format!("{crlf} of {all} lines end in CRLF");
        findings.add(
            &rules::CRLF,
            first..first,
            message,
            Some("sed -i 's/\\r$//' SKILL.md".into()),
        );
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        // Offsets in the text and in the bytes are the same up to the first invalid byte.
        let at = error.valid_up_to();
        let rule = if at < body { &rules::FRONTMATTER_UTF8 } else { &rules::BODY_UTF8 };
        findings.add(rule, at..at + 1, "invalid UTF-8", Some("save the file as UTF-8".into()));
    }
}

fn check_body(source: &str, body: usize, findings: &mut Findings<'_>) {
    let nul = |text: &str| text.find('\0').map(|at| (at, text.matches('\0').count()));
    if let Some((at, count)) = nul(&source[..body]) {
        let fix = Some("tr -d '\\000' < SKILL.md".into());
        findings.add(
            &rules::FRONTMATTER_NUL,
            at..at + 1,
            format!("the frontmatter contains NUL bytes ({count})"),
            fix,
        );
    }
    if let Some((at, count)) = nul(&source[body..]) {
        let fix = Some("tr -d '\\000' < SKILL.md".into());
        findings.add(
            &rules::BODY_NUL,
            body + at..body + at + 1,
            format!("the instructions contain NUL bytes ({count})"),
            fix,
        );
    }
    client::check_commands(source, body, findings);
    let mut lines = lines_from(source, body);
    if let Some(over) = lines.nth(MAX_BODY_LINES) {
        let count = MAX_BODY_LINES + 1 + lines.count();
        let message = format!("the instructions have {count} lines (advised: {MAX_BODY_LINES})");
        findings.add(
            &rules::BODY_LENGTH,
            over,
            message,
            Some("move details to files under references/, and refer to them here".into()),
        );
    }
}
