//! Reads `metadata.settings`: the settings that a skill declares, one per line:
//!
//! ```text
//! base-url: string = https://api.example.com
//! retries: integer = 3
//! format: csv|json = csv
//! token: secret
//! ```

use serde::Serialize;

use super::findings::abbreviate;

/// The most settings of a skill.
const MAX_SETTINGS: usize = 32;
/// The most characters of a setting's name.
const MAX_NAME: usize = 40;
/// The most bytes of a value.
pub const MAX_VALUE: usize = 4 << 10;

/// A setting that a skill declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name: a-z, 0-9 and single hyphens.
    pub name: String,
    /// The values that it takes.
    pub kind: SettingKind,
    /// The value if none is set.
    pub default: Option<String>,
}

/// The values of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingKind {
    /// Any text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A text that is never stored: the operator sets where the host finds it.
    Secret,
    /// One of these words.
    Choice(Vec<String>),
}

impl Setting {
    /// Returns the variable that passes the value to programs.
    pub fn variable(&self) -> String {
        format!("SKILL_SETTING_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// What the setting takes, as the end of a sentence.
    pub fn check(&self, value: &str) -> Result<(), String> {
        if value.len() > MAX_VALUE || value.contains('\0') {
            return Err(format!("at most {} KiB of text", MAX_VALUE >> 10));
        }
        let is_valid = match &self.kind {
            SettingKind::String | SettingKind::Secret => true,
            SettingKind::Integer => value.parse::<i64>().is_ok(),
            SettingKind::Number => value.parse::<f64>().is_ok_and(f64::is_finite),
            SettingKind::Boolean => matches!(value, "true" | "false"),
            SettingKind::Choice(words) => words.iter().any(|word| word == value),
        };
        if is_valid { Ok(()) } else { Err(self.kind.takes()) }
    }
}

impl SettingKind {
    fn parse(text: &str) -> Result<SettingKind, String> {
        Ok(match text {
            "string" => SettingKind::String,
            "integer" => SettingKind::Integer,
            "number" => SettingKind::Number,
            "boolean" => SettingKind::Boolean,
            "secret" => SettingKind::Secret,
            _ if text.contains('|') => {
                let words: Vec<String> = text.split('|').map(|word| word.trim().into()).collect();
                if words.iter().any(String::is_empty) {
                    return Err("a choice has an empty word".into());
                }
                SettingKind::Choice(words)
            }
            _ => {
                return Err(format!(
                    "`{}` is not string, integer, number, boolean, secret or a choice such as `csv|json`",
                    abbreviate(text)
                ));
            }
        })
    }

    /// Says what the setting takes, as the end of a sentence.
    pub fn takes(&self) -> String {
        match self {
            SettingKind::String => "text".into(),
            SettingKind::Integer => "a whole number".into(),
            SettingKind::Number => "a number".into(),
            SettingKind::Boolean => "true or false".into(),
            SettingKind::Secret => "env:NAME or file:PATH".into(),
            SettingKind::Choice(words) => format!("one of: {}", words.join(", ")),
        }
    }
}

/// The reason why declarations are invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The 0-based line of the text, if one is wrong.
    pub line: Option<usize>,
    /// What is wrong, without the line.
    pub why: String,
    /// The corrected line.
    pub fix: Option<String>,
}

/// Reads the settings. A line that starts with `#` is a comment.
///
/// # Errors
/// The first line that is invalid, and why.
pub fn parse(text: &str) -> Result<Vec<Setting>, InvalidSetting> {
    let lines = text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let mut settings: Vec<Setting> = Vec::new();
    for (number, line) in lines {
        let invalid = |why, fix| InvalidSetting { line: Some(number), why, fix };
        if settings.len() == MAX_SETTINGS {
            return Err(invalid(format!("there are more than {MAX_SETTINGS}"), None));
        }
        let setting = setting(line).map_err(|why| invalid(why, corrected(line)))?;
        if settings.iter().any(|known| known.name == setting.name) {
            return Err(invalid(format!("`{}` is declared twice", setting.name), None));
        }
        settings.push(setting);
    }
    Ok(settings)
}

fn setting(line: &str) -> Result<Setting, String> {
    let (name, rest) = line.split_once(':').ok_or("expected NAME: TYPE = DEFAULT")?;
    let name = name.trim();
    if name.len() > MAX_NAME || !super::fields::is_name(name) {
        return Err("a name has a-z, 0-9 and single hyphens, at most 40 characters".into());
    }
    let (kind, default) = match rest.split_once('=') {
        Some((kind, default)) => (kind, Some(default.trim().to_owned())),
        None => (rest, None),
    };
    let setting =
        Setting { name: name.to_owned(), kind: SettingKind::parse(kind.trim())?, default };
    match &setting.default {
        Some(_) if setting.kind == SettingKind::Secret => Err("a secret has no default".into()),
        Some(default) => setting
            .check(default)
            .map_err(|takes| format!("the default `{}` is not {takes}", abbreviate(default)))
            .map(|()| setting.clone()),
        None => Ok(setting),
    }
}

/// Returns the valid declaration that an invalid line probably means: with a valid name, a type that
/// exists, and the default only if the type takes it.
fn corrected(line: &str) -> Option<String> {
    /// A longer line is no declaration with a small mistake.
    const LONGEST: usize = 200;
    if line.len() > LONGEST {
        return None;
    }
    let (name, rest) = line.split_once(':').unwrap_or((line, "string"));
    let name = if super::fields::is_name(name.trim()) {
        name.trim().to_owned()
    } else {
        super::fields::suggested_name(name)
    };
    let (kind, default) = rest.split_once('=').map_or((rest, None), |(k, d)| (k, Some(d.trim())));
    let kind = near_kind(kind.trim())?;
    let with_default = default.and_then(|default| {
        let default = match (kind.as_str(), default.to_ascii_lowercase().as_str()) {
            ("boolean", "yes" | "on" | "1" | "true") => "true",
            ("boolean", "no" | "off" | "0" | "false") => "false",
            _ => default,
        };
        let same = format!("{name}: {kind} = {default}");
        // A fraction is a number.
        let number = || format!("{name}: number = {default}");
        setting(&same)
            .map(|_| same.clone())
            .ok()
            .or_else(|| (kind == "integer").then(number).filter(|line| setting(line).is_ok()))
    });
    with_default.or_else(|| Some(format!("{name}: {kind}")).filter(|line| setting(line).is_ok()))
}

/// Returns the type that a word means, as in other languages or with a typing mistake.
fn near_kind(word: &str) -> Option<String> {
    const KINDS: [&str; 5] = ["string", "integer", "number", "boolean", "secret"];
    let lower = word.to_ascii_lowercase();
    let kind = match lower.as_str() {
        _ if SettingKind::parse(word).is_ok() => return Some(word.to_owned()),
        "" | "str" | "text" | "url" | "path" => "string",
        "int" | "long" | "i32" | "i64" | "u32" | "u64" => "integer",
        "float" | "double" | "f32" | "f64" | "decimal" => "number",
        "bool" => "boolean",
        "password" | "token" | "key" => "secret",
        other => KINDS.into_iter().find(|kind| strsim::damerau_levenshtein(kind, other) <= 2)?,
    };
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).expect_err(text).why
    }

    #[test]
    fn each_line_declares_a_setting() {
        let settings = parse(
            "# how to reach the service\nbase-url: string = https://a.example/?x=1\n\nretries: integer = 3\n\
             format: csv | json = csv\ntoken: secret",
        )
        .unwrap();
        let named: Vec<_> = settings.iter().map(Setting::variable).collect();
        assert_eq!(
            named,
            [
                "SKILL_SETTING_BASE_URL",
                "SKILL_SETTING_RETRIES",
                "SKILL_SETTING_FORMAT",
                "SKILL_SETTING_TOKEN"
            ]
        );
        assert_eq!(settings[0].default.as_deref(), Some("https://a.example/?x=1"));
        assert_eq!(settings[2].kind, SettingKind::Choice(vec!["csv".into(), "json".into()]));
    }

    #[test]
    fn values_are_checked_by_type() {
        for (line, good, bad) in [
            ("n: integer", "-3", "3.5"),
            ("n: number", "2.5", "many"),
            ("n: boolean", "true", "yes"),
            ("n: csv|json", "json", "xml"),
        ] {
            let setting = &parse(line).unwrap()[0];
            assert!(setting.check(good).is_ok() && setting.check(bad).is_err(), "{line}");
        }
        assert!(parse("n: string").unwrap()[0].check(&"x".repeat(MAX_VALUE + 1)).is_err());
    }

    #[test]
    fn invalid_declarations_are_named() {
        assert!(error("Base_URL: string").contains("a name has"));
        assert!(error("retries: int").contains("`int` is not"));
        assert!(error("retries: integer = x").contains("the default `x` is not a whole number"));
        assert!(error("token: secret = x").contains("a secret has no default"));
        assert!(error("a: string\na: string").contains("twice"));
        assert!(error("no type").contains("expected NAME: TYPE"));
        let many: String = (0..33).map(|n| format!("s{n}: string\n")).collect();
        assert!(error(&many).contains("more than 32"));
    }

    #[test]
    fn invalid_line_is_numbered_and_corrected() {
        for (line, corrected) in [
            ("retries: int = 3", Some("retries: integer = 3")),
            ("retries: integr = 3", Some("retries: integer = 3")),
            ("retries: integer = x", Some("retries: integer")),
            ("retries: integer = 2.5", Some("retries: number = 2.5")),
            ("quiet: bool = yes", Some("quiet: boolean = true")),
            ("format: csv|json = xml", Some("format: csv|json")),
            ("token: secret = abc", Some("token: secret")),
            ("Base_URL: string", Some("base-url: string")),
            ("city", Some("city: string")),
            ("retries: anything", None),
        ] {
            let invalid = parse(&format!("# comment\na: string\n\n{line}")).expect_err(line);
            assert_eq!((invalid.line, invalid.fix.as_deref()), (Some(3), corrected), "{line}");
        }
    }
}
