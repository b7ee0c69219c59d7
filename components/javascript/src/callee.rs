//! The text of a call, for the message that what it calls is not a function: `a.b is not a function`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};

use rquickjs::{Ctx, qjs};

use crate::builtins::{self, process::source_line};
use crate::modules::loader::{self, WRAPPER};
use crate::system;

type CalleeFunction = unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_char, usize);

unsafe extern "C" {
    fn JS_SetCalleeFunc(runtime: *mut qjs::JSRuntime, function: CalleeFunction);
}

/// Makes the engine ask this module.
pub(crate) fn install(ctx: &Ctx<'_>) {
    // SAFETY: The runtime is that of the context, and the function has the type that it calls.
    unsafe { JS_SetCalleeFunc(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), write) }
}

/// Writes the text of the call at a place, if the file of the place can be read.
unsafe extern "C" fn write(
    file: *const c_char,
    line: c_int,
    column: c_int,
    text: *mut c_char,
    size: usize,
) {
    // The build, which starts the engine, has no files.
    if !system::is_running() {
        return;
    }
    // SAFETY: The engine passes a string, and a buffer of that size.
    let (file, to) = unsafe {
        (
            CStr::from_ptr(file).to_string_lossy(),
            std::slice::from_raw_parts_mut(text.cast::<u8>(), size),
        )
    };
    let (line, mut column) = (line.max(1) as usize, column.max(1) as usize);
    let own = builtins::source(&file).and_then(|text| text.lines().nth(line - 1));
    let content = match own {
        Some(line) => Some(line.to_owned()),
        None => known_line(&file, line),
    };
    let Some(content) = content.filter(|content| content.len() <= LINE_MAX) else { return };
    // The first line of a CommonJS file follows the wrapper.
    if line == 1 && file.starts_with('/') && loader::module_url(file.into_owned()).is_none() {
        column = column.saturating_sub(WRAPPER.len());
    }
    let Some(found) = find(&content, column) else { return };
    if found.len() < to.len() {
        to[..found.len()].copy_from_slice(found.as_bytes());
        to[found.len()] = 0;
    }
}

/// Longer lines are those of minified files, which are not shown.
const LINE_MAX: usize = 4096;

thread_local! {
    /// The line of the last call, with its file and number: a script that catches such errors in a
    /// loop must not read its file each time.
    static LAST: RefCell<(String, usize, Option<String>)> = RefCell::default();
}

fn known_line(file: &str, line: usize) -> Option<String> {
    LAST.with_borrow_mut(|last| {
        if (last.0.as_str(), last.1) != (file, line) {
            *last = (file.to_owned(), line, source_line(file.to_owned(), line));
        }
        last.2.clone()
    })
}

fn is_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '$' | '#')
}

/// Returns what is called by the name at a column, counted from 1, as V8 writes it: with what
/// precedes the name, where arguments and indices are left out.
fn find(line: &str, column: usize) -> Option<String> {
    let chars: Vec<char> = line.chars().collect();
    let mut start = column.checked_sub(1).filter(|start| *start < chars.len())?;
    let is_new = chars[start..].starts_with(&['n', 'e', 'w', ' ']);
    if is_new {
        start += 4;
    }
    let mut end = start;
    while end < chars.len() && (is_name(chars[end]) || is_new && chars[end] == '.') {
        end += 1;
    }
    if end == start || chars[start].is_ascii_digit() {
        return None;
    }
    let mut text: String = chars[start..end].iter().collect();
    while start > 1 && chars[start - 1] == '.' {
        let is_optional = chars[start - 2] == '?';
        start -= if is_optional { 2 } else { 1 };
        let (before, shown) = object(&chars[..start]);
        text = format!("{shown}{}{text}", if is_optional { "?." } else { "." });
        start = before;
    }
    (text.len() < 100).then_some(text)
}

/// Returns where the last part of an expression starts, and how it is shown.
fn object(chars: &[char]) -> (usize, String) {
    const UNNAMED: &str = "(intermediate value)";
    let Some(last) = chars.last() else { return (0, UNNAMED.to_owned()) };
    let bracket = match last {
        ')' => Some('('),
        ']' => Some('['),
        _ => None,
    };
    let mut end = chars.len();
    if let Some(bracket) = bracket {
        let mut depth = 0;
        let opening = chars.iter().rposition(|char| {
            depth += i32::from(char == last) - i32::from(*char == bracket);
            depth == 0
        });
        let Some(opening) = opening else { return (0, UNNAMED.to_owned()) };
        end = opening;
    }
    let start = chars[..end].iter().rposition(|char| !is_name(*char)).map_or(0, |at| at + 1);
    if start == end {
        return (0, UNNAMED.to_owned());
    }
    let name: String = chars[start..end].iter().collect();
    let suffix: String = match bracket {
        None => String::new(),
        Some('(') => "(...)".to_owned(),
        Some(_) => chars[end..].iter().collect(),
    };
    (start, name + &suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_with_what_precedes_them() {
        for (line, name, expected) in [
            ("foo(1)", "foo", "foo"),
            ("  o.a.f(x);", "f(", "o.a.f"),
            ("o?.a?.f(x);", "f(", "o?.a?.f"),
            ("this.#run()", "#run", "this.#run"),
            ("get(1, (2)).name()", "name", "get(...).name"),
            ("list[0].name()", "name", "list[0].name"),
            ("(await x).name()", "name", "(intermediate value).name"),
            ("x = new a.B(1)", "new", "a.B"),
        ] {
            let column = line.find(name).unwrap() + 1;
            assert_eq!(find(line, column).as_deref(), Some(expected), "{line}");
        }
        assert_eq!(find("(1)()", 1), None);
        assert_eq!(find("x", 5), None);
    }
}
