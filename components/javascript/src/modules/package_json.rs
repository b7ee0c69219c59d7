//! package.json: its `type`, `main`, `exports` and `imports`.

use serde_json::Value;

/// What modules need of a package.json.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackageJson {
    /// `name`.
    pub(crate) name: Option<String>,
    /// `main`.
    pub(crate) main: Option<String>,
    /// Whether `type` is `module`; `None` if it is neither that nor `commonjs`.
    pub(crate) is_module: Option<bool>,
    /// `exports`.
    pub(crate) exports: Option<Value>,
    /// `imports`.
    pub(crate) imports: Option<Value>,
}

/// The reason why a package does not lead to a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetError {
    /// Nothing matches.
    NotExported,
    /// A target is not a path in the package.
    InvalidTarget(String),
    /// The subpath leads out of the target.
    InvalidSubpath,
}

/// Where a target of `exports` or `imports` leads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A path in the package, beginning with `./`.
    File(String),
    /// Another package.
    Package(String),
}

impl PackageJson {
    /// Parses the file. `None` if it is not a JSON object.
    pub(crate) fn parse(text: &[u8]) -> Option<PackageJson> {
        let Value::Object(mut fields) = serde_json::from_slice(text).ok()? else { return None };
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        Some(PackageJson {
            name: text(fields.remove("name")),
            main: text(fields.remove("main")),
            is_module: match text(fields.remove("type")).as_deref() {
                Some("module") => Some(true),
                Some("commonjs") => Some(false),
                _ => None,
            },
            exports: fields.remove("exports").filter(|exports| !exports.is_null()),
            imports: fields.remove("imports").filter(Value::is_object),
        })
    }

    /// Finds a subpath (`.`, `./a`) in `exports`.
    pub(crate) fn export(&self, subpath: &str, on: &[&str]) -> Result<Target, TargetError> {
        let exports = self.exports.as_ref().ok_or(TargetError::NotExported)?;
        let subpaths = exports
            .as_object()
            .filter(|fields| fields.keys().next().is_some_and(|key| key.starts_with('.')));
        let found = match subpaths {
            None if subpath == "." => target(exports, None, on, false)?,
            None => None,
            Some(fields) => matching(fields, subpath, on, false)?,
        };
        found.ok_or(TargetError::NotExported)
    }

    /// Finds a name (`#a`) in `imports`.
    pub(crate) fn import(&self, name: &str, on: &[&str]) -> Result<Target, TargetError> {
        let imports = self.imports.as_ref().and_then(Value::as_object);
        let found = matching(imports.ok_or(TargetError::NotExported)?, name, on, true)?;
        found.ok_or(TargetError::NotExported)
    }
}

type Fields = serde_json::Map<String, Value>;

/// Finds the entry with the key, or with the longest pattern that the key matches.
fn matching(
    fields: &Fields,
    key: &str,
    on: &[&str],
    imports: bool,
) -> Result<Option<Target>, TargetError> {
    if let Some(value) = fields.get(key).filter(|_| !key.contains('*')) {
        return target(value, None, on, imports);
    }
    let best = fields
        .iter()
        .filter_map(|(pattern, value)| {
            let (before, after) = pattern.split_once('*')?;
            let middle = key.strip_prefix(before)?.strip_suffix(after)?;
            (!middle.is_empty()).then_some((before.len(), pattern.len(), middle, value))
        })
        .max_by_key(|(before, length, ..)| (*before, *length));
    match best {
        Some((_, _, middle, value)) => target(value, Some(middle), on, imports),
        None => Ok(None),
    }
}

/// Whether a part of a path may not be in a target.
fn is_invalid(part: &str) -> bool {
    matches!(part, ".." | "." | "node_modules")
}

/// Follows conditions and lists to a target. `None` if nothing matches.
fn target(
    value: &Value,
    middle: Option<&str>,
    on: &[&str],
    imports: bool,
) -> Result<Option<Target>, TargetError> {
    match value {
        Value::String(text) => {
            let path = middle.map_or_else(|| text.clone(), |middle| text.replace('*', middle));
            if !text.starts_with("./") {
                let package = imports && !text.starts_with("../") && !text.starts_with('/');
                return if package {
                    Ok(Some(Target::Package(path)))
                } else {
                    Err(TargetError::InvalidTarget(text.clone()))
                };
            }
            if middle.is_some_and(|middle| middle.split(['/', '\\']).any(is_invalid)) {
                return Err(TargetError::InvalidSubpath);
            }
            if path[2..].split(['/', '\\']).any(is_invalid) {
                return Err(TargetError::InvalidTarget(path));
            }
            Ok(Some(Target::File(path)))
        }
        Value::Object(conditions) => {
            for (condition, value) in conditions {
                if (condition == "default" || on.contains(&condition.as_str()))
                    && let Some(found) = target(value, middle, on, imports)?
                {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        Value::Array(targets) => {
            let mut last = Ok(None);
            for value in targets {
                match target(value, middle, on, imports) {
                    Ok(Some(found)) => return Ok(Some(found)),
                    other => last = other,
                }
            }
            last
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMPORT: &[&str] = &["node", "import"];
    const REQUIRE: &[&str] = &["node", "require"];

    fn parse(text: &str) -> PackageJson {
        PackageJson::parse(text.as_bytes()).unwrap()
    }

    fn file(path: &str) -> Result<Target, TargetError> {
        Ok(Target::File(path.to_owned()))
    }

    #[test]
    fn conditions_are_tried_in_the_order_of_the_file() {
        let package = parse(
            r#"{"exports": {".": {"browser": "./b.js", "import": "./i.mjs", "require": "./r.cjs", "default": "./d.js"}}}"#,
        );
        assert_eq!(package.export(".", IMPORT), file("./i.mjs"));
        assert_eq!(package.export(".", REQUIRE), file("./r.cjs"));
        let package = parse(r#"{"exports": {"default": "./d.js", "import": "./i.mjs"}}"#);
        assert_eq!(package.export(".", IMPORT), file("./d.js"));
        let nested = parse(r#"{"exports": {"node": {"browser": "./b"}, "default": "./d.js"}}"#);
        assert_eq!(nested.export(".", IMPORT), file("./d.js"));
    }

    #[test]
    fn exports_can_be_a_path_or_a_list() {
        assert_eq!(parse(r#"{"exports": "./a.js"}"#).export(".", IMPORT), file("./a.js"));
        let list = parse(r#"{"exports": ["not-a-path", "./a.js"]}"#);
        assert_eq!(list.export(".", IMPORT), file("./a.js"));
    }

    #[test]
    fn subpaths_that_are_not_exported_are_errors() {
        let package = parse(r#"{"exports": {".": "./a.js", "./b": null}}"#);
        for subpath in ["./a.js", "./b", "./c"] {
            assert_eq!(package.export(subpath, IMPORT), Err(TargetError::NotExported), "{subpath}");
        }
    }

    #[test]
    fn longest_pattern_wins() {
        let package = parse(
            r#"{"exports": {"./*": "./all/*.js", "./f/*": "./f/*.js", "./f/*.x": "./x/*.js"}}"#,
        );
        assert_eq!(package.export("./a/b", IMPORT), file("./all/a/b.js"));
        assert_eq!(package.export("./f/b", IMPORT), file("./f/b.js"));
        assert_eq!(package.export("./f/b.x", IMPORT), file("./x/b.js"));
    }

    #[test]
    fn targets_outside_the_package_are_errors() {
        for target in ["../a.js", "/a.js", "./a/../../b.js", "./node_modules/a.js"] {
            let package = parse(&format!(r#"{{"exports": "{target}"}}"#));
            let error = package.export(".", IMPORT).unwrap_err();
            assert!(matches!(error, TargetError::InvalidTarget(_)), "{target}");
        }
        let package = parse(r#"{"exports": {"./*": "./f/*"}}"#);
        assert_eq!(package.export("./../../a", IMPORT), Err(TargetError::InvalidSubpath));
    }

    #[test]
    fn imports_can_name_packages() {
        let package = parse(r##"{"imports": {"#a": {"node": "dep", "default": "./a.js"}}}"##);
        assert_eq!(package.import("#a", IMPORT), Ok(Target::Package("dep".to_owned())));
        assert_eq!(package.import("#b", IMPORT), Err(TargetError::NotExported));
    }
}
