//! Reads and writes TOML, with its restrictions: no null, 64-bit numbers, one document, a table at
//! the top.

use jaq_json::{Map, Num, Val};
use toml::de::{DeArray, DeTable, DeValue};
use toml::value::{Table, Value};

use crate::json_out::key_text;
use crate::number;
use crate::position::line_column;

/// Reads a document. Dates and times become strings.
///
/// # Errors
/// Returns the problem with the document, with line and column.
pub fn read(text: &str) -> Result<Val, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let (line, column) =
            line_column(text.as_bytes(), error.span().map_or(0, |span| span.start));
        format!("{line}:{column}: invalid TOML: {}", error.message().replace('\n', ", "))
    })?;
    Ok(from_table(table.get_ref()))
}

/// Writes a document.
///
/// # Errors
/// Returns the path of a value that TOML cannot represent.
pub fn write(value: &Val) -> Result<String, String> {
    let Val::Obj(map) = value else {
        return Err(format!(
            "TOML requires a table at the top, not {}; wrap the value, as in `{{items: .}}`",
            kind(value)
        ));
    };
    let table = to_table(map, "")?;
    toml::to_string(&table).map_err(|error| format!("TOML cannot represent this value: {error}"))
}

fn from_table(table: &DeTable<'_>) -> Val {
    let entries =
        table.iter().map(|(key, value)| (string(key.get_ref()), from_value(value.get_ref())));
    Val::obj(entries.collect::<Map>())
}

fn from_array(array: &DeArray<'_>) -> Val {
    Val::Arr(array.iter().map(|item| from_value(item.get_ref())).collect::<Vec<_>>().into())
}

fn from_value(value: &DeValue<'_>) -> Val {
    match value {
        DeValue::String(text) => string(text),
        DeValue::Integer(int) => {
            Num::from_str_radix(int.as_str(), int.radix()).map_or(Val::Null, Val::Num)
        }
        DeValue::Float(float) => from_float(float.as_str()),
        DeValue::Boolean(bool) => Val::Bool(*bool),
        DeValue::Datetime(datetime) => string(&datetime.to_string()),
        DeValue::Array(array) => from_array(array),
        DeValue::Table(table) => from_table(table),
    }
}

fn from_float(text: &str) -> Val {
    let text = text.strip_prefix('+').unwrap_or(text);
    if number::is_json_number(text) {
        number::from_text(text)
    } else {
        Val::Num(Num::Float(text.parse().unwrap_or(f64::NAN)))
    }
}

fn string(text: &str) -> Val {
    Val::utf8_str(text.to_owned().into_bytes())
}

fn to_table(map: &Map, path: &str) -> Result<Table, String> {
    map.iter()
        .map(|(key, value)| {
            let key = String::from_utf8_lossy(key_text(key)?).into_owned();
            let value = to_value(value, &format!("{path}.{key}"))?;
            Ok((key, value))
        })
        .collect()
}

fn to_value(value: &Val, path: &str) -> Result<Value, String> {
    Ok(match value {
        Val::Null => {
            return Err(format!(
                "{path} is null, which TOML cannot represent; remove it, as in `del(..|nulls)`"
            ));
        }
        Val::Bool(bool) => Value::Boolean(*bool),
        Val::Num(n @ (Num::Int(_) | Num::BigInt(_))) => {
            let text = number::to_text(n);
            Value::Integer(
                text.parse()
                    .map_err(|_| format!("{path} is {text}, but TOML integers have 64 bits"))?,
            )
        }
        Val::Num(Num::Float(f)) => Value::Float(*f),
        Val::Num(n) => {
            let text = number::to_text(n);
            Value::Float(
                text.parse().map_err(|_| {
                    format!("{path} is a number that TOML cannot represent: {text}")
                })?,
            )
        }
        Val::TStr(text) => Value::String(String::from_utf8_lossy(text).into_owned()),
        Val::BStr(_) => {
            return Err(format!("{path} is a byte string, which TOML cannot represent"));
        }
        Val::Arr(items) => {
            let items =
                items.iter().enumerate().map(|(i, item)| to_value(item, &format!("{path}[{i}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Val::Obj(map) => Value::Table(to_table(map, path)?),
    })
}

fn kind(value: &Val) -> &'static str {
    match value {
        Val::Null => "null",
        Val::Bool(_) => "a boolean",
        Val::Num(_) => "a number",
        Val::TStr(_) | Val::BStr(_) => "a string",
        Val::Arr(_) => "an array",
        Val::Obj(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_map_to_json_in_order() {
        let text = "z = 1\na = 0x1F\nf = 1.50\nbig = -9223372036854775808\nd = 2024-02-29T12:00:00Z\n[t]\nl = [true, {k = 'v'}]\n";
        let json = r#"{"z":1,"a":31,"f":1.50,"big":-9223372036854775808,"d":"2024-02-29T12:00:00Z","t":{"l":[true,{"k":"v"}]}}"#;
        assert_eq!(read(text).unwrap().to_string(), json);
    }

    #[test]
    fn tables_come_after_plain_values() {
        let value = read("[t]\nk = 1\n").unwrap();
        let Val::Obj(map) = &value else { panic!() };
        let mut map = (**map).clone();
        map.insert(string("x"), Val::Bool(true));
        assert_eq!(write(&Val::obj(map)).unwrap(), "x = true\n\n[t]\nk = 1\n");
    }

    #[test]
    fn errors_have_line_and_column_or_path() {
        assert_eq!(read("a = 1\nb = \n").unwrap_err().split(": ").next().unwrap(), "2:5");
        assert!(
            read("a = 1\na = 2\n").unwrap_err().starts_with("2:1: invalid TOML: duplicate key")
        );
        let error = |json: &str| {
            let mut found = Val::Null;
            crate::json::read(&bytes::Bytes::copy_from_slice(json.as_bytes()), 0, |v| {
                found = v;
                Ok(())
            })
            .unwrap();
            write(&found).unwrap_err()
        };
        assert!(error(r#"{"a": [1, {"b": null}]}"#).starts_with(".a[1].b is null"));
        assert!(
            error(r#"{"a": 9223372036854775808}"#)
                .starts_with(".a is 9223372036854775808, but TOML integers")
        );
        assert!(error("[1]").starts_with("TOML requires a table at the top, not an array"));
    }
}
