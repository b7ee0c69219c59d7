//! Rules for JavaScript and TypeScript.

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast::ast::{Expression, Program};
use oxc_parser::Parser;
use oxc_semantic::{Semantic, SemanticBuilder};
use oxc_span::SourceType;

use crate::finding::Findings;

/// Checks a script or module. The extension of `name` says which of both it is, and whether it has
/// JSX.
pub fn lint(text: &str, name: Option<&str>, is_typed: bool, findings: &mut Findings<'_>) {
    let default =
        if is_typed { SourceType::ts() } else { SourceType::unambiguous().with_jsx(true) };
    let kind = name.and_then(|name| SourceType::from_path(name).ok()).unwrap_or(default);
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, kind).parse();
    let checked = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_build_nodes(true)
        .build(&parsed.program);
    let mut errors = parsed.diagnostics.into_vec();
    errors.extend(checked.diagnostics.into_vec());
    for error in &errors {
        let offset = error.labels.iter().map(|label| label.offset()).min();
        findings.at(offset.unwrap_or(0) as usize, "syntax", error.message.to_string());
    }
    // The rest of a broken text is not what was meant.
    if errors.is_empty() {
        unused(&parsed.program, &checked.semantic, findings);
        nodes(&checked.semantic, findings);
    }
}

/// Names that are declared and never used. Others may use the global names of a script, and exports.
fn unused(program: &Program<'_>, semantic: &Semantic<'_>, findings: &mut Findings<'_>) {
    let scoping = semantic.scoping();
    if program.source_type.is_typescript_definition() {
        return;
    }
    for symbol in scoping.symbol_ids() {
        let name = scoping.symbol_name(symbol);
        let is_global = !program.source_type.is_module()
            && scoping.symbol_scope_id(symbol) == scoping.root_scope_id();
        // JSX may need this name without mentioning it.
        let is_for_jsx = name == "React" && program.source_type.is_jsx();
        if is_global || is_for_jsx || name.starts_with('_') || !scoping.symbol_is_unused(symbol) {
            continue;
        }
        let declaration = scoping.symbol_declaration(symbol);
        let is_checked = matches!(
            semantic.nodes().kind(declaration),
            AstKind::VariableDeclarator(_)
                | AstKind::ImportSpecifier(_)
                | AstKind::ImportDefaultSpecifier(_)
                | AstKind::ImportNamespaceSpecifier(_)
        );
        // A declarator is part of a declaration, which is part of its export.
        let mut around = semantic.nodes().ancestor_kinds(declaration).take(2);
        let is_exported = around.any(|kind| matches!(kind, AstKind::ExportDeclaration(_)));
        if is_checked && !is_exported {
            let span = scoping.symbol_span(symbol);
            findings.at(span.start as usize, "unused", format!("`{name}` is never used"));
        }
    }
}

fn nodes(semantic: &Semantic<'_>, findings: &mut Findings<'_>) {
    for node in semantic.nodes().iter() {
        match node.kind() {
            AstKind::DebuggerStatement(statement) => {
                findings.at(
                    statement.span.start as usize,
                    "debugger",
                    "`debugger` stops the program",
                );
            }
            AstKind::BinaryExpression(binary)
                if binary.operator.is_equality()
                    && (is_nan(&binary.left) || is_nan(&binary.right)) =>
            {
                let message = "nothing equals NaN: use `Number.isNaN`";
                findings.at(binary.span.start as usize, "nan-comparison", message);
            }
            _ => {}
        }
    }
}

fn is_nan(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::Identifier(name) if name.name == "NaN")
}
