//! Rules for Python.

use std::collections::HashSet;

use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_parameters, walk_stmt,
};
use ruff_python_ast::{Alias, CmpOp, ExceptHandler, Expr, Parameters, PySourceType, Stmt};
use ruff_python_parser::parse_unchecked_source;
use ruff_text_size::Ranged;

use crate::finding::Findings;

/// Checks a module.
pub fn lint(text: &str, name: Option<&str>, findings: &mut Findings<'_>) {
    let is_stub = name.is_some_and(|name| name.ends_with(".pyi"));
    let kind = if is_stub { PySourceType::Stub } else { PySourceType::Python };
    let parsed = parse_unchecked_source(text, kind);
    for error in parsed.errors() {
        findings.at(error.start().to_usize(), "syntax", error.error.to_string());
    }
    if !parsed.errors().is_empty() {
        return;
    }
    let mut reader = Reader { text, findings, imports: Vec::new(), used: HashSet::new() };
    for statement in parsed.suite() {
        reader.visit_stmt(statement);
    }
    let Reader { findings, imports, used, .. } = reader;
    // What a package or a stub imports, it may export.
    if is_stub || name.is_some_and(|name| name.ends_with("__init__.py")) {
        return;
    }
    for (name, offset) in imports {
        if !used.contains(name) {
            findings.at(offset, "unused-import", format!("`{name}` is imported and never used"));
        }
    }
}

struct Reader<'a, 'f, 't> {
    text: &'a str,
    findings: &'f mut Findings<'t>,
    /// The names that imports bind, with their offsets.
    imports: Vec<(&'a str, usize)>,
    /// All names that occur in expressions, and in texts such as those of `__all__` and of
    /// annotations: a name that occurs is taken as used.
    used: HashSet<&'a str>,
}

impl<'a> Visitor<'a> for Reader<'a, '_, '_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => self.import(&import.names),
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map(ruff_python_ast::Identifier::as_str);
                if module != Some("__future__") {
                    self.import(&import.names);
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(name) => {
                self.used.insert(name.id.as_str());
            }
            Expr::StringLiteral(literal) => {
                let range = literal.range();
                let text = &self.text[range.start().to_usize()..range.end().to_usize()];
                self.used.extend(text.split(|c: char| !c.is_alphanumeric() && c != '_'));
            }
            Expr::Compare(compare) => {
                let mut sides = std::iter::once(&*compare.left).chain(compare.comparators.iter());
                let equals = compare.ops.iter().any(|op| matches!(op, CmpOp::Eq | CmpOp::NotEq));
                if equals && sides.any(|side| matches!(side, Expr::NoneLiteral(_))) {
                    let message = "compare with None by `is` or `is not`";
                    self.findings.at(compare.start().to_usize(), "none-comparison", message);
                }
            }
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(one) = handler;
        if one.type_.is_none() {
            let message = "`except:` also catches SystemExit and KeyboardInterrupt";
            self.findings.at(one.start().to_usize(), "bare-except", message);
        }
        walk_except_handler(self, handler);
    }

    fn visit_parameters(&mut self, parameters: &'a Parameters) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(default) = parameter.default()
                && matches!(default, Expr::List(_) | Expr::Dict(_) | Expr::Set(_))
            {
                let message =
                    "all calls share this default value: use None, and create it in the body";
                self.findings.at(default.start().to_usize(), "mutable-default", message);
            }
        }
        walk_parameters(self, parameters);
    }
}

impl<'a> Reader<'a, '_, '_> {
    fn import(&mut self, names: &'a [Alias]) {
        for alias in names {
            let bound = alias.asname.as_ref().unwrap_or(&alias.name);
            // `import a.b` binds `a`. `import a as a` exports it.
            let name = bound.as_str().split('.').next().unwrap_or_default();
            let is_export =
                alias.asname.as_ref().is_some_and(|own| own.as_str() == alias.name.as_str());
            let line_end = self.text[alias.end().to_usize()..].lines().next().unwrap_or_default();
            if name != "*" && !is_export && !line_end.contains("noqa") {
                self.imports.push((name, bound.start().to_usize()));
            }
        }
    }
}
