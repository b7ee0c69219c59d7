//! Reads YAML by the core schema of YAML 1.2, from parser events directly into jaq's values, so
//! that numbers keep their digits. Aliases share their value, so that a small file cannot become
//! large in memory. Merge keys (`<<`) are applied.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};
use jaq_json::{Map, Num, Val};

use crate::json::MAX_DEPTH;
use crate::number;

/// Calls `each` with every document.
///
/// # Errors
/// Returns the problem with the text, with line and column, or an error of `each`.
pub fn read(text: &str, mut each: impl FnMut(Val) -> Result<(), String>) -> Result<(), String> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchored: Vec::new() };
    loop {
        match reader.next()? {
            (Event::StreamEnd, _) => return Ok(()),
            (Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd, _) => {}
            node => each(reader.node(node, 0)?)?,
        }
    }
}

type Node<'t> = (Event<'t>, Span);

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Anchored values, by the number of the anchor.
    anchored: Vec<(usize, Val)>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Node<'t>, String> {
        loop {
            match self.parser.next_event() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(node)) => return Ok(node),
                Some(Err(error)) => return Err(at(*error.marker(), &error.info())),
                None => return Ok((Event::StreamEnd, Span::empty(Marker::new(0, 1, 0)))),
            }
        }
    }

    fn node(&mut self, (event, span): Node<'t>, depth: usize) -> Result<Val, String> {
        if depth > MAX_DEPTH {
            return Err(at(span.start, &format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value =
                    scalar(&text, style, tag.as_deref()).map_err(|why| at(span.start, &why))?;
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(depth)?, anchor),
            Event::Alias(target) => {
                let found = self.anchored.iter().rev().find(|(anchor, _)| *anchor == target);
                let (_, value) =
                    found.ok_or_else(|| at(span.start, "an alias inside its own anchor"))?;
                (value.clone(), 0)
            }
            other => return Err(at(span.start, &format!("unexpected {other:?}"))),
        };
        if anchor != 0 {
            self.anchored.push((anchor, value.clone()));
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Val, String> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Val::Arr(items.into())),
                node => items.push(self.node(node, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Val, String> {
        let mut map = Map::default();
        let mut merged = Vec::new();
        loop {
            let node = match self.next()? {
                (Event::MappingEnd, _) => break,
                node => node,
            };
            let place = node.1.start;
            let is_merge =
                matches!(&node.0, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.key(node)?;
            let value = self.next()?;
            let value = self.node(value, depth + 1)?;
            if is_merge {
                merged.push((place, value));
            } else if map.insert(key.clone(), value).is_some() {
                return Err(at(place, &format!("duplicate key {key}")));
            }
        }
        for (place, value) in merged {
            merge(&mut map, &value).ok_or_else(|| at(place, "`<<` merges mappings only"))?;
        }
        Ok(Val::obj(map))
    }

    /// JSON keys are strings: other scalars are converted to their text.
    fn key(&mut self, (event, span): Node<'t>) -> Result<Val, String> {
        if let Event::Scalar(text, _, 0, _) = event {
            return Ok(Val::utf8_str(text.into_owned().into_bytes()));
        }
        let no_counterpart = || at(span.start, "JSON keys cannot be sequences or mappings");
        if matches!(event, Event::SequenceStart(..) | Event::MappingStart(..)) {
            return Err(no_counterpart());
        }
        match self.node((event, span), 0)? {
            text @ Val::TStr(_) => Ok(text),
            Val::Arr(_) | Val::Obj(_) => Err(no_counterpart()),
            scalar => Ok(Val::utf8_str(scalar.to_string().into_bytes())),
        }
    }
}

/// Merges another mapping. Keys of the mapping itself take precedence, then earlier merged keys.
/// `None` if the value is not a mapping.
fn merge(map: &mut Map, from: &Val) -> Option<()> {
    match from {
        Val::Obj(other) => {
            for (key, value) in other.iter() {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Some(())
        }
        Val::Arr(several) => several
            .iter()
            .try_for_each(|one| matches!(one, Val::Obj(_)).then(|| merge(map, one))?),
        _ => None,
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Val, String> {
    let string = || Val::utf8_str(text.to_owned().into_bytes());
    match tag.and_then(Tag::core_suffix) {
        Some("str" | "binary" | "timestamp") => Ok(string()),
        Some(kind @ ("int" | "float" | "bool" | "null")) => {
            let value = plain(text);
            let fits = match (kind, &value) {
                ("int", Some(Val::Num(n))) => matches!(n, Num::Int(_) | Num::BigInt(_)),
                ("float", Some(Val::Num(_)))
                | ("bool", Some(Val::Bool(_)))
                | ("null", Some(Val::Null)) => true,
                _ => false,
            };
            value.filter(|_| fits).ok_or_else(|| format!("{text:?} does not match its tag, {kind}"))
        }
        // Application tags are ignored: the value stays.
        _ if style == ScalarStyle::Plain && tag.is_none_or(|t| t.suffix() != "!") => {
            Ok(plain(text).unwrap_or_else(string))
        }
        _ => Ok(string()),
    }
}

/// Returns the value of a plain scalar in the core schema (YAML 1.2.2, section 10.3.2), or `None`
/// if it is a string.
fn plain(text: &str) -> Option<Val> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Val::Null),
        "true" | "True" | "TRUE" => return Some(Val::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Val::Bool(false)),
        ".nan" | ".NaN" | ".NAN" => return Some(Val::Num(Num::Float(f64::NAN))),
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return digits
                .bytes()
                .all(|b| b.is_ascii_alphanumeric())
                .then(|| Num::from_str_radix(digits, radix).map(Val::Num))?;
        }
    }
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(Val::Num(Num::Float(if sign == "-" {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        })));
    }
    // YAML allows `007`, `.5` and `5.`, which JSON does not.
    let (mantissa, exponent) =
        unsigned.find(['e', 'E']).map_or((unsigned, ""), |i| unsigned.split_at(i));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let dot = if fraction.is_empty() { "" } else { "." };
    let json = format!("{sign}{whole}{dot}{fraction}{exponent}");
    number::is_json_number(&json).then(|| number::from_text(&json))
}

fn at(place: Marker, why: &str) -> String {
    format!("{}:{}: invalid YAML: {why}", place.line(), place.col() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        read(text, |v| {
            found.push(v.to_string());
            Ok(())
        })?;
        Ok(found)
    }

    fn one(text: &str) -> String {
        all(text).unwrap().join(" | ")
    }

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        assert_eq!(
            one("[~, null, true, False, no, yes, on]"),
            r#"[null,null,true,false,"no","yes","on"]"#
        );
        assert_eq!(
            one("[0x1F, 0o17, 007, +5, -7, 1e3, .5, 5., 1_000, 12:30]"),
            r#"[31,15,7,5,-7,1e3,0.5,5,"1_000","12:30"]"#
        );
        assert_eq!(
            one("[1.10, 123456789012345678901234567890, '5', \"true\", 2024-02-29]"),
            r#"[1.10,123456789012345678901234567890,"5","true","2024-02-29"]"#
        );
        assert_eq!(one("[!!str 5, !!int '5', !!float 1, ! 5, !mine 5]"), r#"["5",5,1,"5",5]"#);
    }

    #[test]
    fn text_may_have_several_documents() {
        assert_eq!(all("a: 1\n---\n- 2\n---\n").unwrap(), [r#"{"a":1}"#, "[2]", "null"]);
        assert_eq!(all("# nothing\n").unwrap(), [""; 0]);
    }

    #[test]
    fn block_scalars_keep_their_lines() {
        assert_eq!(one("a: |\n  x\n   y\nb: >-\n  x\n  y\n"), r#"{"a":"x\n y\n","b":"x y"}"#);
    }

    #[test]
    fn aliases_and_merge_keys_are_applied() {
        assert_eq!(
            one("a: &x {k: 1, l: 2}\nb: {<<: *x, l: 3}\nc: *x"),
            r#"{"a":{"k":1,"l":2},"b":{"l":3,"k":1},"c":{"k":1,"l":2}}"#
        );
        assert_eq!(
            one("- &x {k: 1}\n- &y {k: 2, m: 4}\n- <<: [*x, *y]"),
            r#"[{"k":1},{"k":2,"m":4},{"k":1,"m":4}]"#
        );
        assert_eq!(all("a: {<<: 5}").unwrap_err(), "1:5: invalid YAML: `<<` merges mappings only");
    }

    #[test]
    fn keys_become_strings() {
        assert_eq!(
            one("{5: a, true: b, ~: c, 1.0: d}"),
            r#"{"5":"a","true":"b","~":"c","1.0":"d"}"#
        );
        assert!(
            all("{[1]: a}")
                .unwrap_err()
                .starts_with("1:2: invalid YAML: JSON keys cannot be sequences")
        );
    }

    #[test]
    fn errors_have_line_and_column() {
        assert_eq!(
            all("a: 1\nb: 2\na: 3\n").unwrap_err(),
            "3:1: invalid YAML: duplicate key \"a\""
        );
        assert!(all("a: [1, 2\nb: 3\n").unwrap_err().starts_with("2:"));
        assert!(all("a: *missing").unwrap_err().starts_with("1:4: invalid YAML"));
        assert_eq!(
            all("!!int x").unwrap_err(),
            "1:7: invalid YAML: \"x\" does not match its tag, int"
        );
        assert!(all("&a [*a]").is_err());
    }

    #[test]
    fn alias_bomb_stays_small() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..30 {
            let p = i - 1;
            text += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{p}"); 10].join(", "));
        }
        let mut documents = 0;
        read(&text, |_| {
            documents += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(documents, 1);
    }

    #[test]
    fn nesting_is_limited() {
        assert!(all(&"[".repeat(600)).unwrap_err().contains("invalid YAML"));
    }
}
