//! Converts an HTML page to readable text in the style of Markdown, and collects its links.

use std::collections::HashSet;

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use schemars::JsonSchema;
use scraper::node::Element;
use scraper::{Html, Node};
use serde::Serialize;
use url::Url;

use crate::text::Text;

/// The content of a page.
#[derive(Debug, Default)]
pub struct Page {
    /// The `title`, if there is one.
    pub title: Option<String>,
    /// The text, with headings, lists and tables in the style of Markdown.
    pub text: String,
    /// The links in their order, each address once.
    pub links: Vec<Link>,
}

/// A link of a page.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Link {
    /// The text of the link.
    pub text: String,
    /// The absolute address.
    pub url: String,
}

/// Reads a page from `address`. Leaves out everything that is not meant for reading (scripts,
/// styles, navigation, hidden parts). If the page marks its main part, reads only that.
pub fn read(html: &str, address: &Url) -> Page {
    let document = Html::parse_document(html);
    let root = document.tree.root();
    let mut elements = root
        .descendants()
        .filter_map(|node| node.value().as_element().map(|element| (node, element)));
    let title = elements
        .clone()
        .find(|(_, e)| e.name() == "title")
        .map(|(node, _)| collapse(&inner_text(node)));
    let base = elements
        .clone()
        .find(|(_, e)| e.name() == "base")
        .and_then(|(_, e)| address.join(e.attr("href")?).ok());
    let main = elements.clone().find(|(_, e)| e.name() == "main" || e.attr("role") == Some("main"));
    let main =
        main.or_else(|| elements.find(|(_, e)| e.name() == "body")).map_or(root, |(node, _)| node);

    let mut reader = Reader {
        base: base.unwrap_or_else(|| address.clone()),
        out: Text::default(),
        anchors: vec![],
        links: vec![],
        seen: HashSet::new(),
    };
    let mut hidden = None;
    // Not recursive, because pages may be nested arbitrarily deep.
    for edge in main.traverse() {
        match edge {
            Edge::Open(node) if hidden.is_none() => match node.value() {
                Node::Text(text) => reader.out.text(text),
                Node::Element(element) if is_hidden(element) => hidden = Some(node.id()),
                Node::Element(element) => reader.open(element),
                _ => {}
            },
            Edge::Close(node) if hidden == Some(node.id()) => hidden = None,
            Edge::Close(node) if hidden.is_none() => {
                if let Node::Element(element) = node.value() {
                    reader.close(element);
                }
            }
            _ => {}
        }
    }
    Page { title: title.filter(|t| !t.is_empty()), text: reader.out.finish(), links: reader.links }
}

struct Reader {
    base: Url,
    out: Text,
    /// The start of the text of each open link.
    anchors: Vec<usize>,
    links: Vec<Link>,
    seen: HashSet<String>,
}

impl Reader {
    fn open(&mut self, element: &Element) {
        match element.name() {
            name @ ("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => {
                self.out.block(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.out.mark(&format!("{} ", "#".repeat(level)));
            }
            "ul" | "menu" => self.out.open_list(None),
            "ol" => self
                .out
                .open_list(Some(element.attr("start").and_then(|s| s.parse().ok()).unwrap_or(1))),
            "li" => self.out.item(),
            "blockquote" => self.out.open_quote(),
            "pre" => self.out.open_code(),
            "br" => self.out.block(1),
            "hr" => self.out.rule(),
            "table" => self.out.open_table(),
            "tr" => self.out.open_row(),
            "td" | "th" => self.out.open_cell(),
            "img" => {
                if let Some(alt) = element.attr("alt").map(str::trim).filter(|alt| !alt.is_empty())
                {
                    self.out.text(&format!("[image: {alt}]"));
                }
            }
            "a" => self.anchors.push(self.out.len()),
            "p" | "dl" | "figure" | "details" | "form" | "fieldset" => self.out.block(2),
            name if is_block(name) => self.out.block(1),
            _ => {}
        }
    }

    fn close(&mut self, element: &Element) {
        match element.name() {
            "ul" | "menu" | "ol" => self.out.close_list(),
            "blockquote" => self.out.close_quote(),
            "pre" => self.out.close_code(),
            "table" => self.out.close_table(),
            "tr" => self.out.close_row(),
            "td" | "th" => self.out.close_cell(),
            "a" => {
                let start = self.anchors.pop().unwrap_or_default();
                self.link(element, start);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "dl" | "figure" | "details"
            | "form" | "fieldset" => self.out.block(2),
            name if is_block(name) => self.out.block(1),
            _ => {}
        }
    }

    fn link(&mut self, element: &Element, start: usize) {
        let Some(href) = element
            .attr("href")
            .map(str::trim)
            .filter(|href| !href.is_empty() && !href.starts_with('#'))
        else {
            return;
        };
        let Ok(url) = self.base.join(href) else { return };
        if matches!(url.scheme(), "http" | "https") && self.seen.insert(url.to_string()) {
            self.links.push(Link { text: collapse(self.out.since(start)), url: url.into() });
        }
    }
}

fn is_hidden(element: &Element) -> bool {
    let never_read = [
        "script", "style", "noscript", "template", "svg", "math", "head", "iframe", "object",
        "nav", "select", "button", "dialog",
    ];
    never_read.contains(&element.name())
        || element.attr("hidden").is_some()
        || element.attr("aria-hidden") == Some("true")
}

fn is_block(name: &str) -> bool {
    let blocks = [
        "div",
        "section",
        "article",
        "main",
        "header",
        "footer",
        "aside",
        "address",
        "dt",
        "dd",
        "figcaption",
        "caption",
        "summary",
        "legend",
    ];
    blocks.contains(&name)
}

fn inner_text(node: NodeRef<'_, Node>) -> String {
    node.descendants().filter_map(|n| n.value().as_text().map(|t| &**t)).collect()
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(html: &str) -> Page {
        read(html, &Url::parse("https://example.com/docs/page.html").unwrap())
    }

    #[test]
    fn headings_paragraphs_and_inline_elements_are_read() {
        let page = of(
            "<title> A \n page </title><h1>One</h1><p>Some <b>bold</b>\n text<br>next</p><h2>Two</h2>tail<div>block</div>",
        );
        assert_eq!(page.title.as_deref(), Some("A page"));
        assert_eq!(page.text, "# One\n\nSome bold text\nnext\n\n## Two\n\ntail\nblock");
    }

    #[test]
    fn lists_nest() {
        let page =
            of("<ul><li>a<li>b<ol start=3><li>c</li><li><p>d</p></li></ol></li></ul><p>after");
        assert_eq!(page.text, "- a\n- b\n  3. c\n  4. d\n\nafter");
    }

    #[test]
    fn tables_have_a_header_row() {
        let page = of(
            "<table><thead><tr><th>Name<th>Age</thead><tr><td>Ann<td>41</td></tr><tr><td><p>Bob</p><p>Jr</p><td>a|b</table>end",
        );
        assert_eq!(
            page.text,
            "| Name | Age |\n| --- | --- |\n| Ann | 41 |\n| Bob Jr | a\\|b |\n\nend"
        );
    }

    #[test]
    fn code_keeps_line_ends_and_quotes_are_marked() {
        let page = of("<p>x<pre>fn a() {\n    b\n}</pre><blockquote><p>q</p><p>r</p></blockquote>");
        assert_eq!(page.text, "x\n\n```\nfn a() {\n    b\n}\n```\n\n> q\n\n> r");
    }

    #[test]
    fn hidden_parts_are_left_out() {
        let page = of(
            "<nav>menu</nav><script>x()</script><style>a{}</style><p hidden>h</p><p aria-hidden=true>h</p><p>seen<svg><text>t</text></svg>",
        );
        assert_eq!(page.text, "seen");
        assert_eq!(of("<div>side</div><main><p>main &amp; more</p></main>").text, "main & more");
    }

    #[test]
    fn links_are_absolute_and_unique() {
        let page = of(r##"<base href="/base/"><a href="a?x=1">A
            <b>b</b></a><a href="a?x=1">again</a><a href="#top">top</a><a href="javascript:x()">js</a><a href="//other.example/">o</a><a href="mailto:x@y">m</a>"##);
        let links: Vec<_> = page.links.iter().map(|l| (l.text.as_str(), l.url.as_str())).collect();
        assert_eq!(
            links,
            [("A b", "https://example.com/base/a?x=1"), ("o", "https://other.example/")]
        );
    }

    #[test]
    fn deep_nesting_does_not_overflow() {
        let page = of(&format!("{}x{}", "<div>".repeat(2_000), "</div>".repeat(2_000)));
        assert_eq!(page.text, "x");
        assert!(of(&format!("{}x", "<ul><li>".repeat(3_000))).text.ends_with('x'));
    }

    proptest! {
        #[test]
        fn no_page_panics(html in "(<[/]?(p|a href='x'|ul|li|ol|table|tr|td|pre|blockquote|h1|br|b|main|script)>|[a-z é\n|]){0,40}") {
            let _ = of(&html);
        }
    }
}
