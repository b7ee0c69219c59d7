//! Rules for HTML.

use std::cell::RefCell;
use std::collections::HashSet;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use crate::finding::Findings;

/// Elements without content or end tag.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements whose end tag may be missing.
const OPTIONAL_END: [&str; 18] = [
    "html", "head", "body", "p", "li", "dt", "dd", "option", "optgroup", "rp", "rt", "thead",
    "tbody", "tfoot", "tr", "td", "th", "colgroup",
];
/// The maximum number of open elements. Each costs time at every tag.
const MAX_DEPTH: usize = 500;
/// Elements of other languages, in which any element may close itself.
const FOREIGN: [&str; 2] = ["svg", "math"];

/// Checks a page. Only the lines of findings are known.
pub fn lint(text: &str, findings: &mut Findings<'_>) {
    let sink = Sink(RefCell::new(State::default()));
    let options = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
    let tokenizer = Tokenizer::new(sink, options);
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(text));
    while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
    tokenizer.end();
    let lines = text.matches('\n').count() + 1;
    let state = tokenizer.sink.0.take();
    for (name, line) in state.open.iter().filter(|(name, _)| !is_optional(name)) {
        findings.add((*line).min(lines), None, "unclosed-element", unclosed(name));
    }
    for (line, rule, message) in state.found {
        findings.add(line.clamp(1, lines), None, rule, message);
    }
}

/// Receives the parts of the page. The tokenizer hands it over by a shared reference.
struct Sink(RefCell<State>);

#[derive(Default)]
struct State {
    /// The open elements with their lines.
    open: Vec<(String, usize)>,
    ids: HashSet<String>,
    found: Vec<(usize, &'static str, String)>,
    /// Whether the elements nest too deeply, and the rest is not checked.
    is_too_deep: bool,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, line_number: u64) -> TokenSinkResult<()> {
        let line = usize::try_from(line_number).unwrap_or(usize::MAX);
        let mut state = self.0.borrow_mut();
        match token {
            _ if state.is_too_deep => {}
            Token::ParseError(message) => state.found.push((line, "syntax", message.into_owned())),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return state.open(&tag, line),
            Token::TagToken(tag) => state.close(&tag.name, line),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl State {
    fn open(&mut self, tag: &Tag, line: usize) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let attribute = |name: &str| {
            tag.attrs.iter().find(|one| &*one.name.local == name).map(|one| one.value.to_string())
        };
        if name == "img" && attribute("alt").is_none() {
            self.found.push((line, "missing-alt", "the image has no attribute `alt`".into()));
        }
        if let Some(id) = attribute("id").filter(|id| !self.ids.insert(id.clone())) {
            self.found.push((line, "duplicate-id", format!("another element has the id `{id}`")));
        }
        let is_foreign = self.open.iter().any(|(name, _)| FOREIGN.contains(&name.as_str()));
        let closes_itself = tag.self_closing && (is_foreign || FOREIGN.contains(&name));
        if closes_itself || VOID.contains(&name) {
            return TokenSinkResult::Continue;
        }
        self.end_previous(name);
        if self.open.len() >= MAX_DEPTH {
            let message = format!(
                "the text nests deeper than {MAX_DEPTH} levels, so the rest is not checked"
            );
            self.found.push((line, "syntax", message));
            self.is_too_deep = true;
            self.open.clear();
            return TokenSinkResult::Continue;
        }
        self.open.push((name.to_owned(), line));
        // The tokenizer relies on us to know which content is no markup.
        match name {
            _ if is_foreign => TokenSinkResult::Continue,
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
                TokenSinkResult::RawData(RawKind::Rawtext)
            }
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            _ => TokenSinkResult::Continue,
        }
    }

    /// Closes the element that ends because it cannot contain another one of its name, as `<li>`.
    fn end_previous(&mut self, name: &str) {
        let mut last = self.open.iter().rev().take_while(|(open, _)| is_optional(open));
        if let Some(after) = last.position(|(open, _)| open == name) {
            self.open.truncate(self.open.len() - after - 1);
        }
    }

    fn close(&mut self, name: &str, line: usize) {
        let Some(at) = self.open.iter().rposition(|(open, _)| open == name) else {
            // `</p>` and `</br>` are elements of their own.
            if name != "p" && name != "br" {
                let message = format!("`</{name}>` closes no element");
                self.found.push((line, "unopened-element", message));
            }
            return;
        };
        let closed = self.open.split_off(at);
        for (inner, line) in closed.iter().skip(1).filter(|(inner, _)| !is_optional(inner)) {
            self.found.push((*line, "unclosed-element", unclosed(inner)));
        }
    }
}

fn is_optional(name: &str) -> bool {
    OPTIONAL_END.contains(&name)
}

fn unclosed(name: &str) -> String {
    format!("`<{name}>` is not closed")
}
