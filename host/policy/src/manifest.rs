//! Parses SKILL.md into a [`Manifest`]; the only code that knows its syntax.
//!
//! `frontmatter` finds the fences, `yaml` parses what is between them, `fields`, `permission_keys`
//! and `tools` check it against [`rules`], and `recover` reads broken files. Parsing is lenient
//! where there is a safe reading and strict where there is none; each rule says which, in its
//! [`Effect`](rules::Effect).

mod fields;
mod findings;
mod frontmatter;
mod permission_keys;
mod recover;
pub mod rules;
mod tools;
mod yaml;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::diagnostic::{Diagnostic, Span};
use crate::limits::Limit;
use fields::Context;
pub use fields::template;
pub use findings::shown as shown_name;
use findings::{Findings, shown};
use frontmatter::{BOM, Fences, lines_from};
use rules::Effect;
pub use tools::line as allowed_tools_line;
use yaml::{Broken, BrokenKind, Value};

/// The frontmatter's bytes. The longest in use has 6 KiB; its parts alone may have 2 KiB by the
/// specification.
const MAX_FRONTMATTER: usize = 64 << 10;
/// The specification's advice for the lines of the instructions.
const MAX_BODY_LINES: usize = 500;

/// The frontmatter, read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Manifest {
    /// As declared if that is 1 to 64 of a-z, 0-9 and single inner hyphens, else the folder's name.
    pub name: String,
    /// 1 to 1024 characters, trimmed. Longer, or empty, where the skill is against the
    /// specification.
    pub description: String,
    /// SPDX expression or a file's name, as written.
    pub license: Option<String>,
    /// 1 to 500 characters.
    pub compatibility: Option<String>,
    /// Strings to strings; other scalars as they were written.
    pub metadata: BTreeMap<String, String>,
    /// The entries of `allowed-tools`; `None` where the key is absent, empty where it asks for
    /// nothing.
    pub allowed_tools: Option<Vec<ToolEntry>>,
    /// The entries of `disallowed-tools`: what the skill gives up, whoever allows it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<ToolEntry>,
    /// `metadata.component`: the WASI component's path inside the skill.
    pub component: Option<String>,
    /// `metadata.timeout`, `.memory`, `.fuel`: what the skill says it needs at most.
    pub limits: BTreeMap<Limit, u64>,
    /// The frontmatter was broken or missing: at most name and description were read. Such a
    /// manifest asks for nothing (`allowed_tools` is an empty list) and is granted nothing.
    pub recovered: bool,
    /// A key looks like a misspelt one that bears permissions: the skill runs, and is granted
    /// nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ungranted: bool,
}

impl Manifest {
    /// Checks whether the skill is granted nothing, whatever a policy allows: what it asks for
    /// cannot be known.
    pub fn is_granted_nothing(&self) -> bool {
        self.recovered || self.ungranted
    }
}

/// One entry of `allowed-tools` or `disallowed-tools`, not yet understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolEntry {
    /// As written, trimmed: `Bash(git:*)`.
    pub text: String,
    /// Where in SKILL.md.
    pub span: Option<Span>,
}

/// A SKILL.md that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// `None` where a rule was broken that forbids loading.
    pub manifest: Option<Manifest>,
    /// What is wrong, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The file's text, which the diagnostics point into; bytes that are not UTF-8 are replaced.
    pub source: String,
    /// Where the instructions start in `source`.
    pub body_offset: usize,
    /// The place of `metadata.component`.
    pub component_at: Option<Span>,
}

/// Reads a SKILL.md. Pure, and never panics.
///
/// `folder` is the name of the folder that it is in, `file` how the diagnostics name it.
pub fn parse(bytes: &[u8], folder: &str, file: &str) -> Parsed {
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

    let (manifest, component_at) = match &fences {
        Some(fences) => read_frontmatter(&source, fences, folder, &mut findings),
        None => (Manifest { name: folder.to_owned(), ..Manifest::default() }, None),
    };
    finish(manifest, component_at, body_offset, findings, &source)
}

/// Takes from the manifest what the worst finding forbids.
fn finish(
    manifest: Manifest,
    component_at: Option<Span>,
    body_offset: usize,
    mut findings: Findings<'_>,
    source: &str,
) -> Parsed {
    let manifest = match findings.effect() {
        Effect::Loads => Some(manifest),
        Effect::Ungranted => {
            Some(Manifest { allowed_tools: Some(Vec::new()), ungranted: true, ..manifest })
        }
        Effect::GrantsNothing => {
            let message =
                "the skill loads with its name and description alone, and is granted nothing";
            findings.add(&rules::RECOVERED, None, message, None);
            let Manifest { name, description, .. } = manifest;
            Some(Manifest {
                name,
                description,
                allowed_tools: Some(Vec::new()),
                recovered: true,
                ..Manifest::default()
            })
        }
        Effect::Refused => None,
    };
    Parsed {
        manifest,
        diagnostics: findings.into_sorted(),
        source: source.to_owned(),
        body_offset,
        component_at,
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
        let message = format!(
            "the frontmatter has {} bytes; {MAX_FRONTMATTER} are allowed",
            fences.yaml.len()
        );
        findings.add(
            &rules::FRONTMATTER_SIZE,
            fences.open.clone(),
            message,
            Some("move text below the second `---`".into()),
        );
        return Default::default();
    }
    if findings.effect() == Effect::Refused {
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
        let message = format!("the key `{}` is there twice", shown(key.text().unwrap_or_default()));
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
            let message = format!("the frontmatter is {}, not a map of fields", root.kind());
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
    let recover::Recovered { name, description } = recover::read(context.source, part, findings);
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
        ..Manifest::default()
    }
}

fn report_broken(source: &str, part: Range<usize>, broken: Broken, findings: &mut Findings<'_>) {
    let (rule, fix) = match broken.kind {
        BrokenKind::Bounds => (&rules::YAML_BOUNDS, "write it shorter and flatter"),
        BrokenKind::Feature => (&rules::YAML_FEATURE, "write it out in plain YAML"),
        BrokenKind::Syntax => {
            return report_syntax(source, yaml::blame(source, part).unwrap_or(broken), findings);
        }
    };
    findings.add(rule, broken.at, broken.message, Some(fix.into()));
}

fn report_syntax(source: &str, broken: Broken, findings: &mut Findings<'_>) {
    let start = source[..broken.at.start].rfind('\n').map_or(0, |i| i + 1);
    let line = lines_from(source, start).next().map_or("", |l| &source[l]);
    let (key, value) = line.split_once(':').map_or(("", ""), |(key, value)| (key, value.trim()));
    let holds_colon = value.contains(": ") && !value.starts_with(['"', '\'', '|', '>', '[', '{']);
    let special = value
        .chars()
        .next()
        .filter(|c| "*&!%@`".contains(*c) || "[{".contains(*c) && value.contains([']', '}']));
    let message = match special {
        _ if holds_colon => {
            format!("the value of `{}` holds `: ` and is not in quotes", shown(key.trim()))
        }
        Some(c) => {
            format!("the value of `{}` starts with `{c}` and is not in quotes", shown(key.trim()))
        }
        None => format!("this is not YAML: {}", broken.message),
    };
    let fix = mended(line, key, value, holds_colon || special.is_some());
    findings.add(&rules::YAML_SYNTAX, broken.at, message, fix);
}

/// The line that would be YAML, where the usual mistakes are made: tabs, an open bracket, a value
/// that needs quotes.
fn mended(line: &str, key: &str, value: &str, needs_quotes: bool) -> Option<String> {
    let open = |start, end| value.starts_with(start) && !value.contains(end);
    if line.starts_with('\t') {
        Some(line.trim_end().replace('\t', "  "))
    } else if open('[', ']') {
        Some(format!("{key}: {value}]"))
    } else if !needs_quotes && !value.starts_with(['"', '\'']) {
        None
    } else if value.chars().count() > 80 {
        Some(format!(
            "put the value in quotes, or write\n{key}: >-\n  and the text from here on, indented"
        ))
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
        // Up to the first bad byte, text and bytes are the same.
        let at = error.valid_up_to();
        let rule = if at < body { &rules::FRONTMATTER_UTF8 } else { &rules::BODY_UTF8 };
        findings.add(rule, at..at + 1, "this is not UTF-8", Some("save the file as UTF-8".into()));
    }
}

fn check_body(source: &str, body: usize, findings: &mut Findings<'_>) {
    let nul = |text: &str| text.find('\0').map(|at| (at, text.matches('\0').count()));
    if let Some((at, count)) = nul(&source[..body]) {
        let fix = Some("tr -d '\\000' < SKILL.md".into());
        findings.add(
            &rules::FRONTMATTER_NUL,
            at..at + 1,
            format!("the frontmatter holds NUL bytes ({count})"),
            fix,
        );
    }
    if let Some((at, count)) = nul(&source[body..]) {
        let fix = Some("tr -d '\\000' < SKILL.md".into());
        findings.add(
            &rules::BODY_NUL,
            body + at..body + at + 1,
            format!("the instructions hold NUL bytes ({count})"),
            fix,
        );
    }
    let mut lines = lines_from(source, body);
    if let Some(over) = lines.nth(MAX_BODY_LINES) {
        let count = MAX_BODY_LINES + 1 + lines.count();
        let message = format!("the instructions have {count} lines; {MAX_BODY_LINES} are advised");
        findings.add(
            &rules::BODY_LENGTH,
            over,
            message,
            Some("move details into files under references/, and name them here".into()),
        );
    }
}
