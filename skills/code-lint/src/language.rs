//! The languages and their rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Findings};
use crate::nesting::{Lexis, TooDeep};
use crate::{css, html, javascript, markdown, nesting, python, shell};

/// A language whose texts are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are descriptive")]
pub enum Language {
    Markdown,
    Html,
    Css,
    JavaScript,
    TypeScript,
    Python,
    Shell,
}

impl Language {
    /// Returns the language for the extension of a path.
    pub fn of(path: &str) -> Option<Language> {
        let name = path.rsplit('/').next()?;
        Some(match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Language::Markdown,
            "html" | "htm" => Language::Html,
            "css" => Language::Css,
            "js" | "mjs" | "cjs" | "jsx" => Language::JavaScript,
            "ts" | "mts" | "cts" | "tsx" => Language::TypeScript,
            "py" | "pyi" => Language::Python,
            "sh" | "bash" => Language::Shell,
            _ => return None,
        })
    }

    /// Checks a text. `name` is its path, if it has one.
    pub fn lint(self, text: &str, name: Option<&str>) -> Vec<Finding> {
        let mut findings = Findings::new(text);
        if let Some(TooDeep { offset, limit }) = self.too_deep(text) {
            let message =
                format!("the text nests deeper than {limit} levels, so it is not checked");
            findings.at(offset, "syntax", message);
            return findings.finish();
        }
        match self {
            Language::Markdown => markdown::lint(text, &mut findings),
            Language::Html => html::lint(text, &mut findings),
            Language::Css => css::lint(text, &mut findings),
            Language::JavaScript => javascript::lint(text, name, false, &mut findings),
            Language::TypeScript => javascript::lint(text, name, true, &mut findings),
            Language::Python => python::lint(text, name, &mut findings),
            Language::Shell => shell::lint(text, &mut findings),
        }
        findings.finish()
    }

    /// Returns where a text nests too deeply for its parser. The limits are about half of what the
    /// component can check.
    fn too_deep(self, text: &str) -> Option<TooDeep> {
        // In JavaScript, comments begin like parts of texts and of patterns.
        const CODE: Lexis = Lexis {
            open: b"([{",
            quotes: b"\"'",
            comment: ("", ""),
            operators: true,
            arrays: usize::MAX,
        };
        const CSS: Lexis = Lexis { comment: ("/*", "*/"), ..CODE };
        const PYTHON: Lexis = Lexis { comment: ("#", "\n"), ..CODE };
        match self {
            Language::Markdown => nesting::paragraphs(text, 200),
            // Its parser does not recurse. The rules have a limit of their own.
            Language::Html => None,
            Language::Css => nesting::brackets(text, CSS, 80),
            Language::JavaScript | Language::TypeScript => nesting::brackets(text, CODE, 200),
            Language::Python => {
                nesting::blocks(text, 200).or_else(|| nesting::brackets(text, PYTHON, 200))
            }
            Language::Shell => nesting::shell(text, 32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Language; 7] = [
        Language::Markdown,
        Language::Html,
        Language::Css,
        Language::JavaScript,
        Language::TypeScript,
        Language::Python,
        Language::Shell,
    ];

    /// The findings as `line:column rule`.
    fn found(language: Language, text: &str) -> Vec<String> {
        let shown = |one: &Finding| {
            let column = one.column.map(|column| format!(":{column}")).unwrap_or_default();
            format!("{}{column} {}", one.line, one.rule)
        };
        language.lint(text, None).iter().map(shown).collect()
    }

    #[test]
    fn clean_texts_have_no_findings() {
        for (language, text) in [
            (
                Language::Markdown,
                "# A\n\n## B\n\n[x](y) [z][r] ![alt](i) [ ] todo\n\n```js\n(\n```\n\n[r]: u\n",
            ),
            (
                Language::Html,
                "<!doctype html><html lang=en><title>x</title><p>a<p>b<ul><li>c</ul><br><img alt='' src=a>\
                 <svg><path d=''/></svg><script>if (a < b) {}</script></html>",
            ),
            (Language::Css, "a { color: red; color: blue; top: 0 } @media print { b { top: 0 } }"),
            (Language::JavaScript, "import { a } from 'x'; export const b = a; let _c = 1;\n"),
            (Language::JavaScript, "import React from 'react';\nexport const a = <b />;\n"),
            (Language::TypeScript, "import type { A } from 'x';\nexport function f(a: A) {}\n"),
            (
                Language::Python,
                "from __future__ import annotations\nimport os, a.b as c\n\n\ndef f(x: c.T = None, *, y=()):\n    return os, x is None\n",
            ),
            (
                Language::Shell,
                "#!/bin/bash\nx=$1\necho \"$x\" $? $# \"${x[@]}\" $((1 + 1))\n[[ -n $x ]] && y=$x\n",
            ),
        ] {
            assert_eq!(found(language, text), Vec::<String>::new(), "{language:?}");
        }
    }

    #[test]
    fn each_rule_finds_its_fault() {
        for (language, text, expected) in [
            (Language::Markdown, "# A\n\n### B\n", &["3:1 heading-level"][..]),
            (
                Language::Markdown,
                "[x]()\n![](i) [y][none]\n",
                &["1:1 empty-link", "2:1 missing-alt", "2:8 undefined-reference"],
            ),
            (Language::Markdown, "text\n\n```js\ncode\n", &["3:1 unclosed-fence"]),
            (Language::Html, "<p>\n<div><b>x</div>", &["2 unclosed-element"]),
            (Language::Html, "</em><img src=a>", &["1 missing-alt", "1 unopened-element"]),
            (Language::Html, "<p id=a></p>\n<p id=a></p>", &["2 duplicate-id"]),
            (Language::Html, "<p class=a class=b>", &["1 syntax"]),
            (Language::Html, "<div>", &["1 unclosed-element"]),
            (Language::Css, "a {\n  color: #12;\n}", &["2:10 invalid-color"]),
            (Language::Css, "a {}", &["1:3 empty-block"]),
            (Language::Css, "a { top: 0; left: 0; top: 1px }", &["1:22 duplicate-property"]),
            (Language::Css, "a { top: 0", &["1:11 syntax"]),
            (Language::JavaScript, "import { a } from 'x';\nexport {};\n", &["1:10 unused"]),
            (Language::JavaScript, "function f() { const x = 1; }", &["1:22 unused"]),
            (
                Language::JavaScript,
                "if (x === NaN) debugger;",
                &["1:5 nan-comparison", "1:16 debugger"],
            ),
            (Language::JavaScript, "let a;\nlet a;", &["1:5 syntax"]),
            (Language::JavaScript, "f(", &["1:3 syntax"]),
            (Language::TypeScript, "const x: number = ;", &["1:19 syntax"]),
            (
                Language::Python,
                "import os\nfrom a import b as c\n",
                &["1:8 unused-import", "2:20 unused-import"],
            ),
            (Language::Python, "def f(x=[]):\n    pass\n", &["1:9 mutable-default"]),
            (Language::Python, "try:\n    pass\nexcept:\n    pass\n", &["3:1 bare-except"]),
            (Language::Python, "a = b == None\n", &["1:5 none-comparison"]),
            (Language::Python, "x = = 1\n", &["1:5 syntax"]),
            (Language::Shell, "rm -r $dir/x\n", &["1:7 unquoted-variable"]),
            (
                Language::Shell,
                "x=`date`\nif true; then echo $x; fi\n",
                &["1:3 backticks", "2:20 unquoted-variable"],
            ),
            (Language::Shell, "read line\n", &["1:1 read-without-r"]),
        ] {
            assert_eq!(found(language, text), expected, "{language:?}: {text}");
        }
        for text in ["if true; then", "echo \"", "case x in"] {
            let found = found(Language::Shell, text);
            assert!(
                found.iter().all(|one| one.ends_with(" syntax")) && !found.is_empty(),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_a_finding_before_the_text_is_parsed() {
        for (language, part, column) in [
            (Language::Markdown, "(", Some(201)),
            (Language::Html, "<b>", None),
            (Language::Css, "a{", Some(162)),
            (Language::Css, "@media all{", Some(891)),
            (Language::JavaScript, "[", Some(201)),
            (Language::JavaScript, "!", Some(1)),
            (Language::JavaScript, "- ", Some(1_601)),
            (Language::JavaScript, "a=>", Some(1_202)),
            (Language::TypeScript, "keyof ", Some(2_401)),
            (Language::Python, "{", Some(201)),
            (Language::Python, "not ", Some(1_601)),
            (Language::Python, "~", Some(1)),
            (Language::Python, "- ", Some(401)),
            (Language::Shell, "$(", Some(65)),
            (Language::Shell, "\"$(", Some(98)),
            (Language::Shell, "{ ", Some(65)),
        ] {
            let found = language.lint(&part.repeat(100_000), None);
            let [Finding { line: 1, column: at, rule, message }] = &found[..] else {
                panic!("{language:?} {part}: {found:?}");
            };
            assert_eq!((*at, rule.as_str()), (column, "syntax"), "{language:?}: {part}");
            assert!(message.contains("nests deeper than "), "{message}");
        }
        let steps: Vec<String> = (0..300).map(|depth| " ".repeat(depth) + "if a:\n").collect();
        assert_eq!(found(Language::Python, &steps.concat()), ["201:201 syntax"]);
    }

    #[test]
    fn texts_with_many_brackets_and_operators_are_not_deep() {
        for (language, text) in [
            (Language::Markdown, "a (b [c :(\n\n"),
            (Language::Css, "a > b + c { d: calc(1 - -1) } /* (---- */\n"),
            (Language::JavaScript, "a = b < 1 || b === 2 && !c || -d > '(((' ? e => f : g;\n"),
            (Language::TypeScript, "type A = B<C> | D<E<F>>;\n"),
            (Language::Python, "a = [not b, -c ** d, '(', f < g]  # (don't\n"),
            (Language::Shell, "a() { b \"$(c '(')\" \"${d}\" {e,f}; }\n"),
        ] {
            assert_eq!(language.too_deep(&text.repeat(2_000)), None, "{language:?}");
        }
        // An element without an end tag does not contain the next one of its kind.
        let page = "<p>a<ul><li>b<li>c</ul><table><tr><td>d<tr><td>e</table>\n".repeat(2_000);
        assert_eq!(found(Language::Html, &page), Vec::<String>::new());
        assert_eq!(found(Language::Html, &"<p>a".repeat(100_000)), Vec::<String>::new());
    }

    #[test]
    fn extension_determines_the_language() {
        assert_eq!(Language::of("a/b.MJS"), Some(Language::JavaScript));
        assert_eq!((Language::of("Makefile"), Language::of("a.rs")), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_is_checked(text in "[\\PC\\n]{0,60}") {
            for language in ALL {
                for finding in language.lint(&text, None) {
                    prop_assert!(finding.line >= 1 && finding.line <= text.matches('\n').count() + 1);
                }
            }
        }
    }
}
