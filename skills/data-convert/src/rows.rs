//! Reads and writes CSV and TSV. The first row has the column names; every further row is an
//! object.

use bytes::Bytes;
use csv::{ReaderBuilder, Terminator, WriterBuilder};
use jaq_json::{Map, Val};

use crate::{json_out, number};

/// Reads rows as an array of objects. A field that is a JSON number becomes a number (`007` and
/// `+1` are not); other fields become strings.
///
/// # Errors
/// Returns an error, with the line, for rows that are longer or shorter than the first, for
/// duplicate column names, and for text that is not UTF-8.
pub fn read(text: &[u8], delimiter: u8) -> Result<Val, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = ReaderBuilder::new().delimiter(delimiter).from_reader(text);
    let mut columns: Vec<Val> = Vec::new();
    for name in reader.headers().map_err(|e| explain(&e))? {
        let name = Val::utf8_str(Bytes::copy_from_slice(name.as_bytes()));
        if columns.contains(&name) {
            return Err(format!("1:1: invalid CSV: two columns have the name {name}"));
        }
        columns.push(name);
    }
    let mut rows = Vec::new();
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|e| explain(&e))? {
        let row: Map = columns.iter().cloned().zip(record.iter().map(field)).collect();
        rows.push(Val::obj(row));
    }
    Ok(Val::Arr(rows.into()))
}

fn field(text: &str) -> Val {
    if number::is_json_number(text) {
        number::from_text(text)
    } else {
        Val::utf8_str(Bytes::copy_from_slice(text.as_bytes()))
    }
}

fn explain(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!(
                "{line}:1: invalid CSV: this row has {len} fields, the first has {expected_len}"
            )
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            format!("{line}:1: invalid CSV: field {} is not UTF-8", err.field() + 1)
        }
        _ => format!("{line}:1: invalid CSV: {error}"),
    }
}

/// Writes objects, preceded by a row of all keys in order of appearance; or arrays, unchanged. Null
/// becomes an empty field; nested arrays and objects become JSON.
///
/// # Errors
/// Returns an error for values that are neither objects nor arrays, and for a mix of both.
pub fn write(rows: &[Val], delimiter: u8) -> Result<Vec<u8>, String> {
    let mut columns = Map::default();
    for row in rows {
        if let Val::Obj(map) = row {
            for key in map.keys() {
                if !columns.contains_key(key) {
                    json_out::key_text(key)?;
                    columns.insert(key.clone(), Val::Null);
                }
            }
        }
    }
    // Flexible: by default, the writer refuses rows of different lengths, but arrays are the
    // caller's responsibility.
    let mut writer = WriterBuilder::new()
        .delimiter(delimiter)
        .terminator(Terminator::Any(b'\n'))
        .flexible(true)
        .from_writer(Vec::new());
    let objects = rows.iter().any(|row| matches!(row, Val::Obj(_)));
    if objects {
        let names = columns.keys().map(cell).collect::<Result<Vec<_>, _>>()?;
        writer.write_record(names).map_err(|e| e.to_string())?;
    }
    for (i, row) in rows.iter().enumerate() {
        let cells = match row {
            Val::Obj(map) => columns
                .keys()
                .map(|key| map.get(key).map_or(Ok(Vec::new()), cell))
                .collect::<Result<Vec<_>, _>>()?,
            Val::Arr(items) if !objects => items.iter().map(cell).collect::<Result<Vec<_>, _>>()?,
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                return Err(format!(
                    "row {} is not an {}: {text}",
                    i + 1,
                    if objects { "object like the others" } else { "object or array" }
                ));
            }
        };
        writer.write_record(cells).map_err(|e| e.to_string())?;
    }
    writer.into_inner().map_err(|e| e.to_string())
}

fn cell(value: &Val) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match value {
        Val::Null => {}
        Val::TStr(text) => out.extend(text.iter()),
        other => json_out::write(&mut out, other, None)?,
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_become_objects() {
        let text = b"id,name,zip,price\n1,\"Lee, Ann\",01234,1.50\n2,\"a \"\"b\"\"\nc\",,-3\n";
        let json = r#"[{"id":1,"name":"Lee, Ann","zip":"01234","price":1.50},{"id":2,"name":"a \"b\"\nc","zip":"","price":-3}]"#;
        assert_eq!(read(text, b',').unwrap().to_string(), json);
        assert_eq!(read(b"a\tb\n1\tx y\n", b'\t').unwrap().to_string(), r#"[{"a":1,"b":"x y"}]"#);
        assert_eq!(read(b"", b',').unwrap().to_string(), "[]");
    }

    #[test]
    fn objects_become_rows_under_all_keys() {
        let rows = |json: &'static str| {
            let mut all = Vec::new();
            crate::json::read(&Bytes::from_static(json.as_bytes()), 0, |v| {
                all.push(v);
                Ok(())
            })
            .unwrap();
            write(&all, b',').map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            rows(r#"{"a":1,"b":"x,y"} {"c":[1,{"d":2}],"a":null}"#).unwrap(),
            "a,b,c\n1,\"x,y\",\n,,\"[1,{\"\"d\"\":2}]\"\n"
        );
        assert_eq!(rows(r#"[1,"a",true] [2]"#).unwrap(), "1,a,true\n2\n");
        assert_eq!(
            rows(r#"{"a":1} [2]"#).unwrap_err(),
            "row 2 is not an object like the others: [2]"
        );
        assert_eq!(rows("5").unwrap_err(), "row 1 is not an object or array: 5");
    }

    #[test]
    fn errors_have_their_line() {
        assert_eq!(
            read(b"a,b\n1,2\n3\n", b',').unwrap_err(),
            "3:1: invalid CSV: this row has 1 fields, the first has 2"
        );
        assert_eq!(
            read(b"a,a\n", b',').unwrap_err(),
            "1:1: invalid CSV: two columns have the name \"a\""
        );
        assert_eq!(read(b"a\n\xff\n", b',').unwrap_err(), "2:1: invalid CSV: field 1 is not UTF-8");
    }

    proptest! {
        #[test]
        fn fields_keep_any_text(fields in prop::collection::vec("\\PC{0,8}|[\",\n\r\t ]{0,4}", 2..5)) {
            let row: Map = fields.iter().enumerate().map(|(i, f)| (Val::utf8_str(format!("k{i}").into_bytes()), field(f))).collect();
            let before = Val::Arr(vec![Val::obj(row)].into());
            let Val::Arr(rows) = &before else { unreachable!() };
            let after = read(&write(rows, b',').unwrap(), b',').unwrap();
            prop_assert_eq!(after.to_string(), before.to_string());
        }
    }
}
