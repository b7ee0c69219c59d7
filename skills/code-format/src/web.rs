//! Formats HTML, with the CSS and JSON in it, and CSS.

use std::borrow::Cow;

use malva::Syntax;
use markup_fmt::config::ScriptFormatter;

use crate::language::{Language, WIDTH};

/// Formats a page. Scripts are not changed, except those that are JSON.
///
/// # Errors
/// Returns an error if the page, or a style in it, does not parse.
pub fn html(text: &str) -> Result<String, String> {
    let mut options = markup_fmt::config::FormatOptions::default();
    options.layout.print_width = WIDTH as usize;
    // Lines of a script keep their indentation, because they may be part of a text in it.
    options.language.script_formatter = Some(ScriptFormatter::Dprint);
    let formatted =
        markup_fmt::format_text(text, markup_fmt::Language::Html, &options, |code, about| {
            let formatted = match about.ext {
                // The attribute `style` has declarations, which are no style sheet.
                "css" if !about.attr => {
                    Language::Css.check(code).and_then(|()| css(code, about.print_width))
                }
                "json" => Language::Json.format(code),
                _ => return Ok(Cow::Borrowed(code)),
            };
            formatted.map(Cow::Owned).map_err(anyhow::Error::msg)
        });
    formatted.map_err(|error| error.to_string())
}

/// Formats a style sheet to a maximum number of columns.
///
/// # Errors
/// Returns an error if it does not parse.
pub fn css(text: &str, width: usize) -> Result<String, String> {
    let mut options = malva::config::FormatOptions::default();
    options.layout.print_width = width;
    malva::format_text(text, Syntax::Css, &options).map_err(|error| error.to_string())
}
