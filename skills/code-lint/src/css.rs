//! Rules for CSS.

use raffia::ast::{
    ComponentValue, Declaration, InterpolableIdent, SimpleBlock, Statement, Stylesheet,
};
use raffia::{ParserBuilder, Syntax};

use crate::finding::Findings;

/// Checks a style sheet.
pub fn lint(text: &str, findings: &mut Findings<'_>) {
    let mut parser = ParserBuilder::new(text).syntax(Syntax::Css).build();
    let parsed = parser.parse::<Stylesheet<'_>>();
    for error in parser.recoverable_errors() {
        findings.at(error.span.start, "syntax", error.kind.to_string());
    }
    match parsed {
        Ok(sheet) => statements(text, &sheet.statements, findings),
        Err(error) => findings.at(error.span.start, "syntax", error.kind.to_string()),
    }
}

fn statements(text: &str, all: &[Statement<'_>], findings: &mut Findings<'_>) {
    let mut declarations: Vec<(String, &Declaration<'_>)> = Vec::new();
    for (index, statement) in all.iter().enumerate() {
        match statement {
            Statement::QualifiedRule(rule) => block(text, &rule.block, findings),
            Statement::KeyframeBlock(frame) => block(text, &frame.block, findings),
            Statement::AtRule(rule) => {
                if let Some(inner) = &rule.block {
                    block(text, inner, findings);
                }
            }
            Statement::Declaration(declaration) => {
                let InterpolableIdent::Literal(name) = &declaration.name else { continue };
                colors(&declaration.value, findings);
                let name = name.name.to_ascii_lowercase();
                let previous = index.checked_sub(1).and_then(|before| all.get(before));
                // Two values in a row are a fallback for browsers that lack the second.
                let is_fallback = matches!(previous, Some(Statement::Declaration(before))
                    if matches!(&before.name, InterpolableIdent::Literal(other)
                        if other.name.eq_ignore_ascii_case(&name)));
                if !is_fallback && declarations.iter().any(|(known, _)| *known == name) {
                    let message = format!("`{name}` is set above, in the same block");
                    findings.at(declaration.span.start, "duplicate-property", message);
                }
                declarations.push((name, declaration));
            }
            _ => {}
        }
    }
}

fn block(text: &str, block: &SimpleBlock<'_>, findings: &mut Findings<'_>) {
    // A block with a comment is empty on purpose.
    let inner = text.get(block.span.start..block.span.end).unwrap_or_default();
    if block.statements.is_empty() && !inner.contains("/*") {
        findings.at(block.span.start, "empty-block", "the block is empty");
    }
    statements(text, &block.statements, findings);
}

fn colors(values: &[ComponentValue<'_>], findings: &mut Findings<'_>) {
    for value in values {
        match value {
            ComponentValue::HexColor(color) => {
                let is_valid = matches!(color.value.len(), 3 | 4 | 6 | 8)
                    && color.value.bytes().all(|byte| byte.is_ascii_hexdigit());
                if !is_valid {
                    let message = format!("`#{}` is not a colour", color.value);
                    findings.at(color.span.start, "invalid-color", message);
                }
            }
            ComponentValue::Function(function) => colors(&function.args, findings),
            _ => {}
        }
    }
}
