//! jq filters, by jaq. What would leave the guest is not there: `env` and `$ENV` are empty, modules
//! cannot be loaded, `now` is the time that the caller gives.

use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::native::{bome, run, v};
use jaq_core::{Compiler, Ctx, DataT, Lut, Vars, compile, data::HasLut};
use jaq_json::{Map, Val};

use crate::position::line_column;

/// A compiled filter.
pub struct Program {
    start: compile::TermId,
    environment: Environment,
}

struct Environment {
    lut: Lut<Kind>,
    now: f64,
}

struct Kind;

impl DataT for Kind {
    type V<'a> = Val;
    type Data<'a> = &'a Environment;
}

impl<'a> HasLut<'a, Kind> for &'a Environment {
    fn lut(&self) -> &'a Lut<Kind> {
        &self.lut
    }
}

impl Program {
    /// Compiles a filter. `now` is what its `now` gives, in seconds since 1970.
    ///
    /// # Errors
    /// What is wrong with the filter, with line and column.
    pub fn compile(filter: &str, now: f64) -> Result<Self, String> {
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        // jaq's own `now` and `env` ask the operating system, which a guest does not have.
        let standard = jaq_core::funs()
            .chain(jaq_std::funs())
            .chain(jaq_json::funs())
            .filter(|(name, ..)| !["now", "env"].contains(name));
        let own = [
            run::<Kind>(("now", v(0), |cv| bome(Ok(Val::from(cv.0.data().now))))),
            run::<Kind>(("env", v(0), |_| bome(Ok(Val::obj(Map::default()))))),
        ];
        let arena = Arena::default();
        let modules = Loader::new(defs)
            .load(&arena, File { code: filter, path: () })
            .map_err(|errors| explain(filter, load_faults(errors)))?;
        let compiler =
            Compiler::default().with_funs(standard.chain(own)).with_global_vars(["$ENV"]);
        let compiled =
            compiler.compile(modules).map_err(|errors| explain(filter, compile_faults(errors)))?;
        Ok(Self { start: compiled.id, environment: Environment { lut: compiled.lut, now } })
    }

    /// The results for one value, lazily. `halt` ends them.
    pub fn results(&self, value: Val) -> impl Iterator<Item = Result<Val, String>> + '_ {
        let context = Ctx::<Kind>::new(&self.environment, Vars::new([Val::obj(Map::default())]));
        let mut results = self.start.run((context, value));
        std::iter::from_fn(move || match results.next()? {
            Ok(value) => Some(Ok(value)),
            Err(exception) => match exception.get_halt() {
                Ok(0) => None,
                Ok(code) => Some(Err(format!("the filter halted with exit code {code}"))),
                Err(exception) => Some(Err(exception
                    .get_err()
                    .map_or_else(|_| "the filter broke off".to_owned(), |e| e.to_string()))),
            },
        })
    }
}

type Faults<'s> = Vec<(&'s str, String)>;

fn load_faults<'s>(errors: load::Errors<&'s str, ()>) -> Faults<'s> {
    let mut faults = Vec::new();
    for (_, error) in errors {
        match error {
            load::Error::Io(files) => faults.extend(
                files.into_iter().map(|(at, _)| (at, "modules cannot be loaded here".to_owned())),
            ),
            load::Error::Lex(all) => faults.extend(
                all.into_iter()
                    .map(|(expected, at)| (at, format!("expected {}", expected.as_str()))),
            ),
            load::Error::Parse(all) => faults.extend(
                all.into_iter()
                    .map(|(expected, at)| (at, format!("expected {}", expected.as_str()))),
            ),
        }
    }
    faults
}

fn compile_faults<'s>(errors: compile::Errors<&'s str, ()>) -> Faults<'s> {
    let all = errors.into_iter().flat_map(|(_, undefined)| undefined);
    all.map(|(name, what)| match what {
        compile::Undefined::Filter(arity) => (name, format!("there is no filter {name}/{arity}")),
        what => (name, format!("there is no {} {name}", what.as_str())),
    })
    .collect()
}

fn explain(filter: &str, faults: Faults<'_>) -> String {
    let messages = faults.into_iter().map(|(at, why)| {
        // Faults at the end of the filter point to no place within it.
        let offset = (at.as_ptr() as usize).wrapping_sub(filter.as_ptr() as usize);
        let (line, column) = line_column(filter.as_bytes(), offset);
        format!("filter {line}:{column}: {why}")
    });
    messages.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn apply(filter: &str, input: &str) -> Result<String, String> {
        let program = Program::compile(filter, 1_709_210_096.5)?;
        let mut results = Vec::new();
        crate::json::read(&Bytes::copy_from_slice(input.as_bytes()), 0, |value| {
            for result in program.results(value) {
                results.push(result?.to_string());
            }
            Ok(())
        })?;
        Ok(results.join(" "))
    }

    #[test]
    fn the_language_is_jqs() {
        assert_eq!(
            apply(".a[] | select(.n > 1) | .s", r#"{"a":[{"n":1,"s":"x"},{"n":2,"s":"y"}]}"#)
                .unwrap(),
            "\"y\""
        );
        assert_eq!(
            apply(
                "group_by(.k) | map({k: .[0].k, sum: map(.v) | add})",
                r#"[{"k":"a","v":1},{"k":"b","v":2},{"k":"a","v":3}]"#
            )
            .unwrap(),
            r#"[{"k":"a","sum":4},{"k":"b","sum":2}]"#
        );
        assert_eq!(
            apply(r#"test("^a.c$"), ascii_upcase, @base64, ltrimstr("a")"#, r#""abc""#).unwrap(),
            r#"true "ABC" "YWJj" "bc""#
        );
        assert_eq!(apply("del(..|nulls)", r#"{"a":null,"b":[1,null]}"#).unwrap(), r#"{"b":[1]}"#);
        assert_eq!(
            apply("to_entries[0].key, (.x |= 5), paths", r#"{"x":1}"#).unwrap(),
            r#""x" {"x":5} ["x"]"#
        );
    }

    #[test]
    fn time_is_given_and_the_environment_is_empty() {
        assert_eq!(
            apply("now, (now|todate), env, $ENV, (0|localtime|mktime)", "0").unwrap(),
            r#"1709210096.5 "2024-02-29T12:34:56.5Z" {} {} 0"#
        );
    }

    #[test]
    fn errors_name_the_place_in_the_filter() {
        assert_eq!(
            apply(".a |\n  foo(1)", "0").unwrap_err(),
            "filter 2:3: there is no filter foo/1"
        );
        assert_eq!(apply(".a | (", "0").unwrap_err(), "filter 1:7: expected closing parenthesis");
        assert_eq!(apply(".a | $x", "0").unwrap_err(), "filter 1:6: there is no variable $x");
        assert_eq!(apply(". |", "0").unwrap_err(), "filter 1:4: expected term");
        assert!(
            apply("import \"x\" as x; .", "0")
                .unwrap_err()
                .contains("modules cannot be loaded here")
        );
    }

    #[test]
    fn errors_of_a_filter_that_runs_are_reported() {
        assert_eq!(apply(".a", "[1]").unwrap_err(), "cannot index [1] with \"a\"");
        assert_eq!(apply("error(\"no\")", "1").unwrap_err(), "\"no\"");
        assert_eq!(apply("1, halt, 2", "0").unwrap(), "1");
        assert_eq!(apply("halt_error", "0").unwrap_err(), "the filter halted with exit code 5");
    }

    #[test]
    fn big_integers_stay_exact() {
        assert_eq!(
            apply(".[0] + 1, .[1]", "[9007199254740993, 1.10]").unwrap(),
            "9007199254740994 1.10"
        );
    }
}
