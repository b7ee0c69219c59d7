//! Classes: modifiers, members without code, and parameter properties.

use oxc_ast::ast::{
    BindingPattern, Class, ClassBody, ClassElement, Expression, FormalParameter, Function,
    MethodDefinition, MethodDefinitionKind, PropertyDefinition, PropertyDefinitionType,
    PropertyKey, Statement,
};
use oxc_ast_visit::{Visit as _, walk};
use oxc_span::{GetSpan as _, Span};
use oxc_syntax::scope::ScopeFlags;

use super::Stripper;

const MODIFIERS: [&str; 7] =
    ["abstract", "declare", "override", "private", "protected", "public", "readonly"];

impl Stripper<'_> {
    pub(super) fn class(&mut self, it: &Class<'_>) {
        let start = it.decorators.last().map_or(it.span.start, |d| d.span.end);
        if it.r#abstract {
            let at = self.find_word(start, it.body.span.start, "abstract");
            self.edits.blank(at, at + 8);
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let before = &self.source[..first.span.start as usize];
            let keyword = before.rfind("implements").unwrap_or(before.len());
            self.edits.blank(keyword as u32, last.span.end);
        }
        it.decorators.iter().for_each(|decorator| self.visit_decorator(decorator));
        if let Some(types) = &it.type_parameters {
            self.visit_ts_type_parameter_declaration(types);
        }
        if let Some(heritage) = &it.heritage {
            self.visit_expression(&heritage.expression);
            if let Some(types) = &heritage.type_arguments {
                self.visit_ts_type_parameter_instantiation(types);
            }
        }
        self.class_body(&it.body, it.heritage.is_some());
    }

    pub(super) fn class_body(&mut self, it: &ClassBody<'_>, is_derived: bool) {
        for element in &it.body {
            match element {
                ClassElement::MethodDefinition(method) => {
                    if method.kind == MethodDefinitionKind::Constructor {
                        self.parameter_properties(&method.value, it.span, is_derived);
                    }
                    self.method(method);
                }
                ClassElement::PropertyDefinition(property) => self.property(property),
                ClassElement::AccessorProperty(property) => {
                    let key = property.key.span().start;
                    let start =
                        property.decorators.last().map_or(property.span.start, |d| d.span.end);
                    self.modifiers(start, key, true);
                    walk::walk_accessor_property(self, property);
                }
                ClassElement::TSIndexSignature(signature) => self.remove(signature.span),
                ClassElement::StaticBlock(block) => self.visit_static_block(block),
            }
        }
    }

    fn method(&mut self, it: &MethodDefinition<'_>) {
        if it.value.body.is_none() {
            self.remove(it.span);
            return;
        }
        let start = it.decorators.last().map_or(it.span.start, |d| d.span.end);
        self.modifiers(start, it.key.span().start, true);
        if it.optional {
            self.blank_punctuation(it.key.span().end, it.value.params.span.start, b'?');
        }
        it.decorators.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.key(&it.key, it.computed);
        self.visit_function(&it.value, ScopeFlags::Function);
    }

    fn property(&mut self, it: &PropertyDefinition<'_>) {
        if it.declare || it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition {
            self.remove(it.span);
            return;
        }
        let start = it.decorators.last().map_or(it.span.start, |d| d.span.end);
        self.modifiers(start, it.key.span().start, true);
        let until = it.type_annotation.as_ref().map(|types| types.span.start);
        let until = until.or_else(|| it.value.as_ref().map(|v| v.span().start));
        let until = until.unwrap_or(it.span.end);
        if it.optional {
            self.blank_punctuation(it.key.span().end, until, b'?');
        }
        if it.definite {
            self.blank_punctuation(it.key.span().end, until, b'!');
        }
        it.decorators.iter().for_each(|decorator| self.visit_decorator(decorator));
        self.key(&it.key, it.computed);
        if let Some(types) = &it.type_annotation {
            let Span { start, end, .. } = types.span;
            if it.value.is_some() {
                self.edits.blank(start, end);
            } else {
                // Without it, the name and the next member could become one.
                self.edits.blank(start, end - 1);
                self.edits.replace(end - 1, end, ";");
            }
        }
        if let Some(value) = &it.value {
            self.visit_expression(value);
        }
    }

    fn key(&mut self, key: &PropertyKey<'_>, computed: bool) {
        if computed {
            self.visit_property_key(key);
        }
    }

    pub(super) fn parameter_modifiers(&mut self, it: &FormalParameter<'_>) {
        if is_property(it) {
            let start = it.decorators.last().map_or(it.span.start, |d| d.span.end);
            self.modifiers(start, it.pattern.span().start, false);
        }
    }

    /// Removes the modifiers before a name. In a class, a semicolon stays in place of the first:
    /// without it, the member before and this one could become one.
    fn modifiers(&mut self, start: u32, name: u32, in_class: bool) {
        let found: Vec<(bool, u32, u32)> = self
            .words(start, name)
            .into_iter()
            .enumerate()
            .filter(|(_, (_, word))| MODIFIERS.contains(word))
            .map(|(index, (at, word))| (index == 0, at, at + word.len() as u32))
            .collect();
        for (is_first, start, end) in found {
            if is_first && in_class {
                self.edits.replace(start, start + 1, ";");
                self.edits.blank(start + 1, end);
            } else {
                self.edits.blank(start, end);
            }
        }
    }

    /// Declares the properties that a constructor's parameters are, and sets them.
    fn parameter_properties(&mut self, constructor: &Function<'_>, class: Span, is_derived: bool) {
        let names: Vec<String> = constructor
            .params
            .items
            .iter()
            .filter(|parameter| is_property(parameter))
            .filter_map(|parameter| match &parameter.pattern {
                BindingPattern::BindingIdentifier(id) => Some(id.name.to_string()),
                BindingPattern::AssignmentPattern(it) => {
                    it.left.get_binding_identifier().map(|id| id.name.to_string())
                }
                _ => None,
            })
            .collect();
        let Some(body) = constructor.body.as_ref().filter(|_| !names.is_empty()) else { return };
        let declare: String = names.iter().map(|name| format!(" {name};")).collect();
        self.edits.insert(class.start + 1, declare);
        let set: String = names.iter().map(|name| format!(" this.{name} = {name};")).collect();
        let call = body.statements.iter().find(|statement| is_derived && is_super_call(statement));
        match call {
            Some(call) => self.edits.insert(call.span().end, format!(";{set}")),
            None => self.edits.insert(body.span.start + 1, set),
        }
    }
}

fn is_property(it: &FormalParameter<'_>) -> bool {
    it.accessibility.is_some() || it.readonly || it.r#override
}

fn is_super_call(statement: &Statement<'_>) -> bool {
    let Statement::ExpressionStatement(statement) = statement else { return false };
    let Expression::CallExpression(call) = &statement.expression else { return false };
    matches!(call.callee, Expression::Super(_))
}
