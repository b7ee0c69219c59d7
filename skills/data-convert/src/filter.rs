//! jq filters, implemented by jaq. Nothing reaches outside of the guest: `env` and `$ENV` are
//! empty, modules cannot be loaded, and `now` is passed by the caller.

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
    /// Compiles a filter. `now` is the result of its `now`, in seconds since 1970.
    ///
    /// # Errors
    /// Returns the problem with the filter, with line and column.
    pub fn compile(filter: &str, now: f64) -> Result<Self, String> {
        let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        // jaq's own `now` and `env` use the operating system, which a guest does not have.
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

    /// Returns the results for one value lazily. `halt` ends them.
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
                    .map_or_else(|_| "the filter was interrupted".to_owned(), |e| e.to_string()))),
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
                files.into_iter().map(|(at, _)| (at, "modules are not supported".to_owned())),
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
        compile::Undefined::Filter(arity) => (name, format!("unknown filter {name}/{arity}")),
        what => (name, format!("unknown {} {name}", what.as_str())),
    })
    .collect()
}

fn explain(filter: &str, faults: Faults<'_>) -> String {
    let messages = faults.into_iter().map(|(at, why)| {
        // An error at the end of the filter has no position in it.
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
    fn language_is_that_of_jq() {
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
    fn time_is_a_parameter_and_env_is_empty() {
        assert_eq!(
            apply("now, (now|todate), env, $ENV, (0|localtime|mktime)", "0").unwrap(),
            r#"1709210096.5 "2024-02-29T12:34:56.5Z" {} {} 0"#
        );
    }

    #[test]
    fn errors_have_their_position_in_the_filter() {
        assert_eq!(apply(".a |\n  foo(1)", "0").unwrap_err(), "filter 2:3: unknown filter foo/1");
        assert_eq!(apply(".a | (", "0").unwrap_err(), "filter 1:7: expected closing parenthesis");
        assert_eq!(apply(".a | $x", "0").unwrap_err(), "filter 1:6: unknown variable $x");
        assert_eq!(apply(". |", "0").unwrap_err(), "filter 1:4: expected term");
        assert!(
            apply("import \"x\" as x; .", "0").unwrap_err().contains("modules are not supported")
        );
    }

    #[test]
    fn runtime_errors_of_a_filter_are_reported() {
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
