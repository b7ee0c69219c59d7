//! Hostile schemas, and agreement with another implementation.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn found(schema: &Value, instance: &Value) -> Vec<String> {
    let running = AtomicBool::new(false);
    problems(schema, instance, &mut Budget::full(&running)).unwrap()
}

fn refusal(schema: &Value) -> String {
    let running = AtomicBool::new(false);
    match problems(schema, &json!({}), &mut Budget::full(&running)) {
        Err(EvaluationError::Refused(why)) => why,
        other => panic!("{schema}: {other:?}"),
    }
}

/// Creates `depth` definitions, each of which applies the next one `times` times.
fn doubling(depth: usize, times: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for at in 0..depth {
        definitions.insert(
            format!("d{at}"),
            json!({ "allOf": vec![json!({ "$ref": format!("#/$defs/d{}", at + 1) }); times] }),
        );
    }
    definitions.insert(format!("d{depth}"), json!({ "type": "object" }));
    json!({ "$ref": "#/$defs/d0", "$defs": definitions })
}

#[test]
fn doubling_references_exhaust_the_budget() {
    let mut budget = Budget { steps: 100_000, depth: DEPTH_MAX, ..Budget::quick() };
    assert_eq!(
        problems(&doubling(40, 2), &json!({}), &mut budget),
        Err(EvaluationError::OutOfSteps)
    );
    assert_eq!(found(&doubling(8, 2), &json!({})), Vec::<String>::new());
}

#[test]
fn deep_reference_chains_are_refused_without_stack_overflow() {
    let running = AtomicBool::new(false);
    assert_eq!(
        problems(&doubling(60_000, 1), &json!({}), &mut Budget::full(&running)),
        Err(EvaluationError::TooDeep)
    );
    assert_eq!(found(&doubling(100, 1), &json!({})), Vec::<String>::new());
}

#[test]
fn evaluation_stops_when_cancelled() {
    let cancelled = AtomicBool::new(true);
    assert_eq!(
        problems(&doubling(40, 2), &json!({}), &mut Budget::full(&cancelled)),
        Err(EvaluationError::Cancelled)
    );
}

#[test]
fn schemas_that_apply_themselves_to_one_value_are_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "$ref": "#/$defs/b" }] }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
    ] {
        assert!(refusal(&schema).contains("endlessly"), "{schema}");
    }
}

#[test]
fn recursive_schemas_are_accepted() {
    let tree = json!({
        "type": "object",
        "required": ["name"],
        "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } }
    });
    assert_eq!(
        found(&tree, &json!({ "name": "a", "children": [{ "name": "b", "children": [] }] })),
        Vec::<String>::new()
    );
    let problems = found(&tree, &json!({ "name": "a", "children": [{ "name": 1 }] }));
    assert_eq!(problems, ["at /children/0/name: `1` is not of type `string`"]);
}

#[test]
fn references_outside_the_schema_are_refused() {
    for reference in [
        "http://127.0.0.1:9/schema.json",
        "file:///etc/passwd",
        "other.json#/a",
        "#anchor",
        "#/nowhere",
        "#/%zz",
    ] {
        assert!(refusal(&json!({ "$ref": reference })).contains("reference"), "{reference}");
    }
    assert_eq!(
        found(
            &json!({ "$ref": "#/$defs/a~1b%25", "$defs": { "a/b%": { "type": "object" } } }),
            &json!({})
        ),
        Vec::<String>::new()
    );
    assert!(refusal(&json!({ "$dynamicRef": "#" })).contains("not supported"));
    assert!(refusal(&json!({ "properties": { "a": { "$id": "http://a/" } } })).contains("$id"));
    assert!(refusal(&json!({ "$schema": "http://a/own-dialect" })).contains("dialect"));
}

#[test]
fn keywords_of_the_wrong_type_are_refused() {
    for schema in [
        json!(1),
        json!({ "type": "text" }),
        json!({ "properties": [] }),
        json!({ "allOf": [] }),
        json!({ "required": "a" }),
        json!({ "minimum": "1" }),
        json!({ "multipleOf": 0 }),
        json!({ "maxLength": -1 }),
        json!({ "items": 1 }),
        json!({ "pattern": "(" }),
        json!({ "pattern": "(?=look)" }),
    ] {
        refusal(&schema);
    }
    let patterns: serde_json::Map<_, _> = (0..40).map(|n| (format!("p{n}"), json!(true))).collect();
    let running = AtomicBool::new(false);
    let many = problems(
        &json!({ "patternProperties": patterns }),
        &json!({}),
        &mut Budget::full(&running),
    );
    assert!(matches!(many, Err(EvaluationError::Refused(why)) if why.contains("32 patterns")));
}

#[test]
fn problems_have_locations_and_are_few_and_short() {
    let schema = json!({
        "type": "object",
        "required": ["text"],
        "properties": { "text": { "type": "string" }, "list": { "items": { "type": "integer" } }, "long": { "const": 1 } },
        "additionalProperties": false
    });
    assert_eq!(
        found(&schema, &json!({ "txet": 1 })),
        ["the field `text` is missing", "unknown field `txet` (did you mean `text`?)"]
    );
    let all = found(
        &schema,
        &json!({ "text": "a", "list": vec!["x".repeat(10_000); 1_000], "long": "y".repeat(1_000_000) }),
    );
    assert_eq!(all.len(), 10);
    assert!(all.iter().all(|problem| problem.len() < 400), "{all:?}");
    assert!(all[0].starts_with("at /list/0: the text `xxx"), "{}", all[0]);
}

#[test]
fn unique_items_is_not_quadratic() {
    let items: Vec<Value> = (0..200_000).map(|n| json!([n])).collect();
    assert_eq!(found(&json!({ "uniqueItems": true }), &json!(items)), Vec::<String>::new());
    assert_eq!(
        found(
            &json!({ "uniqueItems": true }),
            &json!([1, { "a": 1, "b": 2 }, { "b": 2, "a": 1.0 }])
        )
        .len(),
        1
    );
}

/// Values of few parts, so that instances often match.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        prop::sample::select(vec![
            json!(1.5),
            json!(2.0),
            json!("a"),
            json!("ab"),
            json!("é1"),
            json!("")
        ]),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name(), inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "ab", "c1"]).prop_map(str::to_owned)
}

/// Schemas of every keyword.
fn schema() -> impl Strategy<Value = Value> {
    let kind = || {
        prop::sample::select(vec![
            "null", "boolean", "object", "array", "number", "string", "integer",
        ])
    };
    let names = || prop::collection::hash_set(name(), 0..3).prop_map(|names| json!(names));
    let small = || 0..4_u64;
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kind().prop_map(|kind| json!({ "type": kind })),
        (kind(), kind())
            .prop_filter("distinct", |(a, b)| a != b)
            .prop_map(|(a, b)| json!({ "type": [a, b] })),
        value().prop_map(|value| json!({ "const": value })),
        prop::collection::vec(value(), 1..4).prop_map(|values| json!({ "enum": values })),
        (
            prop::sample::select(vec![
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum"
            ]),
            -2..3_i64
        )
            .prop_map(|(word, n)| json!({ word: n })),
        (1..3_i64).prop_map(|n| json!({ "multipleOf": n })),
        (
            prop::sample::select(vec![
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties"
            ]),
            small()
        )
            .prop_map(|(word, n)| json!({ word: n })),
        prop::sample::select(vec!["^a", "b$", r"\d", "^[a-z]+$", ""])
            .prop_map(|pattern| json!({ "pattern": pattern })),
        names().prop_map(|names| json!({ "required": names })),
        (name(), names()).prop_map(|(name, names)| json!({ "dependentRequired": { name: names } })),
        Just(json!({ "uniqueItems": true })),
        Just(json!({ "$ref": "#/$defs/leaf" })),
        Just(json!({ "properties": { "a": { "$ref": "#/$defs/tree" } } })),
    ];
    let node = leaf.prop_recursive(4, 24, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let one = prop::sample::select(vec![
            "not",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let named = || prop::collection::hash_map(name(), inner.clone(), 1..3);
        prop_oneof![
            (prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), list()).prop_map(|(word, all)| json!({ word: all })),
            (one, inner.clone()).prop_map(|(word, schema)| json!({ word: schema })),
            (inner.clone(), 0..3_u64, 0..3_u64)
                .prop_map(|(schema, least, most)| json!({ "contains": schema, "minContains": least, "maxContains": most })),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            named().prop_map(|named| json!({ "properties": named })),
            named().prop_map(|named| json!({ "dependentSchemas": named })),
            (prop::sample::select(vec!["^a", "b", "1$"]), inner.clone())
                .prop_map(|(p, schema)| json!({ "patternProperties": { p: schema } })),
            // Several keywords together; the last one of each name wins.
            prop::collection::vec(inner.clone(), 2..4).prop_map(|all| {
                let members = all.iter().filter_map(Value::as_object).flatten();
                members.map(|(name, value)| (name.clone(), value.clone())).collect::<Value>()
            }),
        ]
    });
    (node, value()).prop_map(|(node, leaf)| {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "allOf": [node],
            "$defs": { "leaf": { "enum": [leaf, 1] }, "tree": { "properties": { "a": { "$ref": "#/$defs/tree" } }, "maxProperties": 1 } }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn results_agree_with_another_schema_implementation(schema in schema(), instances in prop::collection::vec(value(), 8)) {
        let other = jsonschema::validator_for(&schema).unwrap();
        for instance in instances {
            let found = found(&schema, &instance);
            prop_assert_eq!(found.is_empty(), other.is_valid(&instance), "{} {}: {:?}", schema, instance, found);
        }
    }
}
