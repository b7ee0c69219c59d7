//! Turns TypeScript into JavaScript without moving a line: types become spaces, and enums,
//! namespaces and parameter properties become what the TypeScript compiler makes of them, as
//! `node --experimental-transform-types` does. Positions in errors are therefore those of the file.

mod classes;
mod depth;
mod text;

use std::collections::HashSet;

use oxc_allocator::{Allocator, Vec as ArenaVec};
use oxc_ast::ast::{
    ArrowFunctionExpression, BindingPattern, Class, ClassBody, Declaration, ExportDeclaration,
    ExportDefaultDeclarationKind, Expression, FormalParameter, Function, IdentifierReference,
    ImportDeclaration, ImportDeclarationSpecifier, ImportOrExportKind, JSXElement, JSXFragment,
    Statement, TSAsExpression, TSEnumDeclaration, TSEnumMemberName, TSNamespaceDeclaration,
    TSNamespaceDeclarationBody, TSNonNullExpression, TSSatisfiesExpression, TSTypeAnnotation,
    TSTypeAssertion, TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan as _, SourceType, Span};
use oxc_syntax::scope::ScopeFlags;

use text::{Edits, quoted};

/// Why a text is not TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    /// The position in the text, in bytes.
    pub(crate) offset: usize,
}

/// What a file is written in, other than JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    TypeScript,
    /// TypeScript of a `.cts` file.
    CommonJs,
    /// TypeScript that may contain JSX.
    Tsx,
    /// JavaScript that may contain JSX.
    Jsx,
}

impl Language {
    /// Returns the language of a file by its name, or `None` for plain JavaScript.
    pub(crate) fn of(path: &str) -> Option<Language> {
        match path.rsplit_once('.')?.1 {
            "ts" | "mts" => Some(Language::TypeScript),
            "cts" => Some(Language::CommonJs),
            "tsx" => Some(Language::Tsx),
            "jsx" => Some(Language::Jsx),
            _ => None,
        }
    }

    fn source_type(self) -> SourceType {
        match self {
            Language::TypeScript => SourceType::ts(),
            Language::CommonJs => SourceType::cjs().with_typescript(true),
            Language::Tsx => SourceType::tsx(),
            Language::Jsx => SourceType::jsx(),
        }
    }
}

/// Returns the JavaScript of a text in this language. JSX is an error.
pub(crate) fn strip(source: &str, language: Language) -> Result<String, SyntaxError> {
    if let Some(offset) = depth::excess(source) {
        return Err(SyntaxError { message: "Nested too deeply".to_owned(), offset });
    }
    let allocator = Allocator::default();
    let options = ParseOptions {
        allow_return_outside_function: true,
        enable_ident_hashes: false,
        ..ParseOptions::default()
    };
    let parser = Parser::new(&allocator, source, language.source_type());
    let parsed = parser.with_options(options).parse();
    if let Some(error) = parsed.diagnostics.iter().next() {
        // The engine says what is wrong with JavaScript.
        if language == Language::Jsx {
            return Ok(source.to_owned());
        }
        let label = error.labels.first();
        return Err(SyntaxError {
            message: error.message.to_string(),
            offset: label.map_or(0, |label| label.offset() as usize),
        });
    }
    let mut stripper = Stripper { source, edits: Edits::default(), enumeration: None, jsx: None };
    stripper.visit_program(&parsed.program);
    match stripper.jsx {
        Some(offset) => Err(SyntaxError {
            message: "JSX is not supported: convert it to JavaScript first".to_owned(),
            offset: offset as usize,
        }),
        None => Ok(stripper.edits.apply(source)),
    }
}

struct Stripper<'s> {
    source: &'s str,
    edits: Edits,
    /// The enum whose initializers are visited, and its members: they are in scope there.
    enumeration: Option<(String, HashSet<String>)>,
    /// Where the first JSX starts.
    jsx: Option<u32>,
}

/// Where an enum or a namespace is declared.
struct Place<'p> {
    /// Where its statement starts, with `export`.
    start: u32,
    exported: bool,
    /// The namespace that contains it.
    namespace: Option<&'p str>,
    /// Whether its name is declared before: then both are one object.
    redeclared: bool,
}

impl Place<'_> {
    /// Returns the text before and after the statements that fill the object.
    fn frame(&self, name: &str) -> (String, String) {
        let open = format!("(function ({name}) {{");
        let (declare, argument) = match (self.namespace, self.exported) {
            (Some(outer), true) => (
                format!("let {name}; "),
                format!("{name} = {outer}.{name} || ({outer}.{name} = {{}})"),
            ),
            (None, true) => (format!("export var {name}; "), format!("{name} || ({name} = {{}})")),
            (_, false) => (format!("var {name}; "), format!("{name} || ({name} = {{}})")),
        };
        let declare = if self.redeclared { String::new() } else { declare };
        (format!("{declare}{open}"), format!("}})({argument});"))
    }
}

impl Stripper<'_> {
    /// Strips the statements of a block, or of a namespace.
    fn statements(&mut self, statements: &[Statement<'_>], namespace: Option<&str>) {
        let mut declared: HashSet<String> = HashSet::new();
        for statement in statements {
            let span = statement.span();
            let export = match statement {
                Statement::ExportDeclaration(export) => Some(&**export),
                _ => None,
            };
            let declaration =
                export.map_or_else(|| statement.as_declaration(), |e| Some(&e.declaration));
            if self.is_type_only(statement) {
                self.remove(span);
            } else if let Some(declaration) = declaration {
                let name = declared_name(declaration);
                let redeclared = name.as_ref().is_some_and(|name| declared.contains(name));
                let place =
                    Place { start: span.start, exported: export.is_some(), namespace, redeclared };
                self.declaration(declaration, export, &place);
                declared.extend(name);
            } else {
                self.other_statement(statement);
            }
        }
    }

    fn declaration(
        &mut self,
        declaration: &Declaration<'_>,
        export: Option<&ExportDeclaration<'_>>,
        place: &Place<'_>,
    ) {
        match declaration {
            Declaration::TSEnumDeclaration(it) => self.enumeration(it, place),
            Declaration::TSNamespaceDeclaration(it) => self.namespace(it, place),
            Declaration::TSImportEqualsDeclaration(it) => {
                let start = self.find_word(it.span.start, it.span.end, "import");
                self.edits.replace(start, start + 6, "const ");
                self.export_to_namespace(export, place, &[it.id.name.to_string()]);
            }
            other => {
                let names = match other {
                    Declaration::VariableDeclaration(variables) => {
                        let set = variables.declarations.iter().filter(|d| d.init.is_some());
                        let mut names = Vec::new();
                        set.for_each(|d| binding_names(&d.id, &mut names));
                        names
                    }
                    other => declared_name(other).into_iter().collect(),
                };
                self.export_to_namespace(export, place, &names);
                self.visit_declaration(other);
            }
        }
    }

    /// Removes `export` in a namespace, and sets the properties of its object.
    fn export_to_namespace(
        &mut self,
        export: Option<&ExportDeclaration<'_>>,
        place: &Place<'_>,
        names: &[String],
    ) {
        let (Some(export), Some(namespace)) = (export, place.namespace) else { return };
        self.edits.blank(export.span.start, export.span.start + 6);
        let set: String =
            names.iter().map(|name| format!(" {namespace}.{name} = {name};")).collect();
        let ended = self.source[..export.span.end as usize].ends_with([';', '}']);
        self.edits.insert(export.span.end, format!("{}{set}", if ended { "" } else { ";" }));
    }

    fn enumeration(&mut self, it: &TSEnumDeclaration<'_>, place: &Place<'_>) {
        let name = it.id.name.as_str();
        let (open, close) = place.frame(name);
        self.edits.replace_keeping_lines(self.source, place.start, it.body.span.start + 1, open);
        let mut members = HashSet::new();
        let mut strings = HashSet::new();
        let mut previous: Option<String> = None;
        for (index, member) in it.body.members.iter().enumerate() {
            let key = match &member.id {
                TSEnumMemberName::Identifier(id) => id.name.to_string(),
                TSEnumMemberName::String(text) | TSEnumMemberName::ComputedString(text) => {
                    text.value.to_string()
                }
                TSEnumMemberName::ComputedTemplateString(text) => {
                    text.quasis.iter().map(|part| part.value.raw.as_str()).collect()
                }
            };
            let property = format!("{name}[{}]", quoted(&key));
            if let Some(value) = &member.initializer {
                let start = value.span().start;
                if is_string(value, &strings) {
                    strings.insert(key.clone());
                    self.edits.replace(member.span.start, start, format!("{property} = "));
                    self.edits.insert(value.span().end, ";");
                } else {
                    self.edits.replace(member.span.start, start, format!("{name}[{property} = "));
                    self.edits.insert(value.span().end, format!("] = {};", quoted(&key)));
                }
                let outer = self.enumeration.replace((name.to_owned(), members.clone()));
                self.visit_expression(value);
                self.enumeration = outer;
            } else {
                let value =
                    previous.map_or("0".to_owned(), |p| format!("{name}[{}] + 1", quoted(&p)));
                let text = format!("{name}[{property} = {value}] = {};", quoted(&key));
                self.edits.replace(member.span.start, member.span.end, text);
            }
            let next = it.body.members.get(index + 1).map_or(it.body.span.end, |m| m.span.start);
            self.blank_punctuation(member.span.end, next, b',');
            members.insert(key.clone());
            previous = Some(key);
        }
        self.edits.replace(it.body.span.end - 1, it.body.span.end, close);
    }

    fn namespace(&mut self, it: &TSNamespaceDeclaration<'_>, place: &Place<'_>) {
        let mut name = it.id.name.as_str();
        let (mut open, mut close) = place.frame(name);
        let mut body = &it.body;
        // `namespace A.B` is a namespace B that A exports.
        while let TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) = body {
            let within =
                Place { start: 0, exported: true, namespace: Some(name), redeclared: false };
            let (inner_open, inner_close) = within.frame(inner.id.name.as_str());
            open = format!("{open} {inner_open}");
            close = format!("{inner_close} {close}");
            name = inner.id.name.as_str();
            body = &inner.body;
        }
        let TSNamespaceDeclarationBody::TSModuleBlock(block) = body else { return };
        self.edits.replace_keeping_lines(self.source, place.start, block.span.start + 1, open);
        self.statements(&block.body, Some(name));
        self.edits.replace(block.span.end - 1, block.span.end, close);
    }

    fn other_statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::ImportDeclaration(import) => self.import(import),
            Statement::ExportNamedDeclaration(export) => {
                for specifier in &export.specifiers {
                    self.specifier(specifier.span, specifier.export_kind, export.span.end);
                }
            }
            Statement::ExportFromDeclaration(export) => {
                for specifier in &export.specifiers {
                    self.specifier(specifier.span, specifier.export_kind, export.source.span.start);
                }
            }
            Statement::TSExportAssignment(export) => {
                let to = export.expression.span().start;
                self.edits.replace(export.span.start, to, "module.exports = ");
                self.visit_expression(&export.expression);
            }
            other => self.visit_statement(other),
        }
    }

    fn import(&mut self, import: &ImportDeclaration<'_>) {
        for specifier in import.specifiers.iter().flatten() {
            if let ImportDeclarationSpecifier::ImportSpecifier(it) = specifier {
                self.specifier(it.span, it.import_kind, import.source.span.start);
            }
        }
    }

    /// Removes `type Name` and the comma after it.
    fn specifier(&mut self, span: Span, kind: ImportOrExportKind, end: u32) {
        if kind == ImportOrExportKind::Type {
            self.edits.blank(span.start, span.end);
            self.blank_punctuation(span.end, end, b',');
        }
    }

    /// Checks whether nothing of a statement is left at run time.
    fn is_type_only(&self, statement: &Statement<'_>) -> bool {
        match statement {
            Statement::ImportDeclaration(it) => it.import_kind == ImportOrExportKind::Type,
            Statement::ExportNamedDeclaration(it) => it.export_kind == ImportOrExportKind::Type,
            Statement::ExportFromDeclaration(it) => it.export_kind == ImportOrExportKind::Type,
            Statement::ExportAllDeclaration(it) => it.export_kind == ImportOrExportKind::Type,
            Statement::TSNamespaceExportDeclaration(_) => true,
            Statement::ExportDeclaration(it) => self.is_type_only_declaration(&it.declaration),
            Statement::ExportDefaultDeclaration(it) => match &it.declaration {
                ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
                ExportDefaultDeclarationKind::FunctionDeclaration(it) => it.body.is_none(),
                _ => false,
            },
            other => other.as_declaration().is_some_and(|d| self.is_type_only_declaration(d)),
        }
    }

    fn is_type_only_declaration(&self, declaration: &Declaration<'_>) -> bool {
        match declaration {
            Declaration::TSTypeAliasDeclaration(_)
            | Declaration::TSInterfaceDeclaration(_)
            | Declaration::TSExternalModuleDeclaration(_)
            | Declaration::TSGlobalDeclaration(_) => true,
            Declaration::VariableDeclaration(it) => it.declare,
            Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
            Declaration::ClassDeclaration(it) => it.declare,
            Declaration::TSEnumDeclaration(it) => it.declare,
            Declaration::TSImportEqualsDeclaration(it) => {
                it.import_kind == ImportOrExportKind::Type
            }
            Declaration::TSNamespaceDeclaration(it) => it.declare || self.has_only_types(it),
        }
    }

    fn has_only_types(&self, namespace: &TSNamespaceDeclaration<'_>) -> bool {
        match &namespace.body {
            TSNamespaceDeclarationBody::TSNamespaceDeclaration(inner) => self.has_only_types(inner),
            TSNamespaceDeclarationBody::TSModuleBlock(block) => {
                block.body.iter().all(|statement| self.is_type_only(statement))
            }
        }
    }

    /// Removes a statement or a member of a class. A semicolon stays: without it, the line before and
    /// the one after could become one statement.
    fn remove(&mut self, span: Span) {
        self.edits.replace_keeping_lines(self.source, span.start, span.end, ";");
    }

    /// Removes the types after an expression. Where the next line starts with a bracket, it would be
    /// called with what is left.
    fn remove_type_of_expression(&mut self, expression: Span, whole: Span) {
        let rest = &self.source[whole.end as usize..];
        let next = rest.trim_start();
        let on_next_line = rest[..rest.len() - next.len()].contains('\n');
        if on_next_line && next.starts_with(['(', '[', '`']) {
            self.edits.blank(expression.end, whole.end - 1);
            self.edits.replace(whole.end - 1, whole.end, ";");
        } else {
            self.edits.blank(expression.end, whole.end);
        }
    }
}

impl<'a> Visit<'a> for Stripper<'_> {
    fn visit_statements(&mut self, it: &ArenaVec<'a, Statement<'a>>) {
        self.statements(it, None);
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.edits.blank(it.span.start, it.span.end);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.remove_type_of_expression(it.expression.span(), it.span);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.remove_type_of_expression(it.expression.span(), it.span);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        // A line break after `return` would end the statement.
        self.edits.blank_in_one_line(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.edits.blank(it.expression.span().end, it.span.end);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.blank_punctuation(it.id.span().end, it.span.end, b'!');
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_function(&mut self, it: &Function<'a>, _: ScopeFlags) {
        if let Some(this) = &it.this_param {
            let items = it.params.items.first().map(|p| p.span.start);
            let next = items.or_else(|| it.params.rest.as_ref().map(|rest| rest.span.start));
            self.edits.blank(this.span.start, next.unwrap_or(it.params.span.end - 1));
        }
        if let Some(types) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(types);
        }
        self.visit_formal_parameters(&it.params);
        if let Some(result) = &it.return_type {
            self.visit_ts_type_annotation(result);
        }
        if let Some(body) = &it.body {
            self.visit_function_body(body);
        }
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        self.parameter_modifiers(it);
        if it.optional {
            self.blank_punctuation(it.pattern.span().end, it.span.end, b'?');
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_arrow_function_expression(&mut self, it: &ArrowFunctionExpression<'a>) {
        // Line breaks are not allowed after `async`, and not before `=>`.
        if let Some(types) = &it.type_parameters {
            self.edits.blank_in_one_line(types.span.start, types.span.end);
        }
        self.visit_formal_parameters(&it.params);
        if let Some(result) = &it.return_type {
            self.edits.blank_in_one_line(result.span.start, result.span.end);
        }
        self.visit_arrow_function_body(&it.body);
    }

    fn visit_jsx_element(&mut self, it: &JSXElement<'a>) {
        self.jsx.get_or_insert(it.span.start);
    }

    fn visit_jsx_fragment(&mut self, it: &JSXFragment<'a>) {
        self.jsx.get_or_insert(it.span.start);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        self.class(it);
    }

    fn visit_class_body(&mut self, it: &ClassBody<'a>) {
        self.class_body(it, false);
    }

    fn visit_identifier_reference(&mut self, it: &IdentifierReference<'a>) {
        let Some((name, members)) = &self.enumeration else { return };
        if members.contains(it.name.as_str()) {
            let text = format!("{name}.{}", it.name);
            self.edits.replace(it.span.start, it.span.end, text);
        }
    }
}

/// The name that a function, class, enum or namespace declares.
fn declared_name(declaration: &Declaration<'_>) -> Option<String> {
    match declaration {
        Declaration::FunctionDeclaration(it) => it.id.as_ref().map(|id| id.name.to_string()),
        Declaration::ClassDeclaration(it) => it.id.as_ref().map(|id| id.name.to_string()),
        Declaration::TSEnumDeclaration(it) => Some(it.id.name.to_string()),
        Declaration::TSNamespaceDeclaration(it) => Some(it.id.name.to_string()),
        _ => None,
    }
}

fn binding_names(pattern: &BindingPattern<'_>, names: &mut Vec<String>) {
    match pattern {
        BindingPattern::BindingIdentifier(id) => names.push(id.name.to_string()),
        BindingPattern::ObjectPattern(object) => {
            object.properties.iter().for_each(|property| binding_names(&property.value, names));
            object.rest.iter().for_each(|rest| binding_names(&rest.argument, names));
        }
        BindingPattern::ArrayPattern(array) => {
            array.elements.iter().flatten().for_each(|element| binding_names(element, names));
            array.rest.iter().for_each(|rest| binding_names(&rest.argument, names));
        }
        BindingPattern::AssignmentPattern(it) => binding_names(&it.left, names),
    }
}

/// Checks whether the value of an enum's member is a string: such members have no entry for the way
/// back from the value to the name.
fn is_string(value: &Expression<'_>, strings: &HashSet<String>) -> bool {
    match value {
        Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => true,
        Expression::Identifier(id) => strings.contains(id.name.as_str()),
        Expression::ParenthesizedExpression(it) => is_string(&it.expression, strings),
        Expression::BinaryExpression(it) => {
            it.operator.as_str() == "+"
                && (is_string(&it.left, strings) || is_string(&it.right, strings))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(source: &str, language: Language) -> String {
        strip(source, language).unwrap_err().message
    }

    #[test]
    fn types_are_removed_from_files_that_may_contain_jsx() {
        let source = "const f = <T,>(x: T): T => x!;\nexport default f(1 as number);\n";
        let expected = "const f =     (x   )    => x ;\nexport default f(1          );\n";
        assert_eq!(strip(source, Language::Tsx).unwrap(), expected);
        assert_eq!(strip("let a = 1 < 2;", Language::Jsx).unwrap(), "let a = 1 < 2;");
        // What is wrong with JavaScript, the engine says.
        assert_eq!(strip("let a = ;", Language::Jsx).unwrap(), "let a = ;");
    }

    #[test]
    fn jsx_is_an_error_that_says_so() {
        for source in ["let a = <p>text</p>;", "f(() => <></>)", "let a = <A b={<i/>} />;"] {
            for language in [Language::Tsx, Language::Jsx] {
                assert!(message(source, language).starts_with("JSX is not supported"), "{source}");
            }
        }
        assert!(!message("let a = <p>text</p>;", Language::TypeScript).contains("JSX is not"));
    }

    #[test]
    fn texts_that_nest_too_deeply_are_errors() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("`${", "}`"), ("f(", ")")] {
            let text = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(message(&text(50_000), Language::TypeScript), "Nested too deeply", "{open}");
            assert!(strip(&text(100), Language::TypeScript).is_ok(), "{open}");
        }
        for part in
            ["!", "- ", "a=>", "if(1)", "if(1);else ", "1**", "1+", "1?1:", "a.b().", "typeof "]
        {
            let text = part.repeat(50_000);
            assert_eq!(message(&text, Language::TypeScript), "Nested too deeply", "{part}");
        }
    }

    #[test]
    fn long_texts_are_not_deep() {
        for line in [
            "const a = b + c * d - e.f().g[1] ?? `x ${y} z`\n",
            "const a = 'it''s' + /['\"(]+/.exec(text)\n",
            "  { name: 'a', value: [1, 2, 3], call: () => f(1) },\n",
            "function f(a: number, b?: string): void { if (a) { return; } else g(); }\n",
            "f(); // (((\n/* {{{ */\n",
            "const x = y / 2; return /[/(]\\(/.test(`a${x / (z / 2)}(`)\n",
        ] {
            let text = line.repeat(20_000);
            assert_eq!(depth::excess(&text), None, "{line}");
            assert_eq!(depth::excess(&format!("x = [\n{text}]")), None, "{line}");
        }
    }
}
