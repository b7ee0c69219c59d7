//! A report as one HTML page that needs nothing else: no script, no font, no address.

use std::fmt::Write as _;

use skillhost_toolchain::Error;

use super::charts;
use super::report::Report;
use super::table;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--page:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--page:#0d1117}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.15rem;margin:0 0 .25rem}p{margin:.25rem 0 .75rem}\
.soft,figcaption{color:var(--soft);font-size:.9rem}.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:2rem;margin:1.5rem 0}\
figure{margin:0}figure svg{width:100%;height:auto;display:block}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.25rem 0 1.5rem}th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}td[colspan]{white-space:normal;text-align:left;color:var(--soft)}code{font-size:.9em}";

pub(crate) fn page(report: &Report) -> Result<String, Error> {
    let mut body = format!(
        "<h1>What isolation costs</h1>\n<p class=\"soft\">{}</p>\n<div class=\"grid\">\n",
        inline(&table::measured_on(report))
    );
    for chart in charts::all(report)?.iter().filter(|chart| !chart.svg.is_empty()) {
        let svg = chart.svg.trim_end();
        _ = writeln!(
            body,
            "<figure id=\"{}\"><h2>{}</h2>\n{svg}\n<figcaption>{}</figcaption></figure>",
            chart.id, chart.title, chart.caption
        );
    }
    body.push_str("</div>\n");
    for tier in report.tiers.iter().filter(|tier| tier.missing.is_some()) {
        let why = tier.missing.as_deref().unwrap_or_default();
        _ = writeln!(
            body,
            "<p class=\"soft\">Missing: {}: {}.</p>",
            inline(&tier.name),
            inline(why.trim_end_matches('.'))
        );
    }
    // The head of it is at the head of the page.
    let tables = table::full(report);
    body.push_str(&html(tables.split_once("\n\n").map_or("", |(_, rest)| rest)));
    let head = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">";
    Ok(format!(
        "{head}\n<title>skillhost: what isolation costs</title>\n<style>{STYLE}</style>\n{body}</html>\n"
    ))
}

/// The headings and tables of our own Markdown.
fn html(markdown: &str) -> String {
    let mut out = String::new();
    let lines: Vec<&str> = markdown.lines().collect();
    for (n, line) in lines.iter().enumerate() {
        let row = |line: &str, cell: &str| -> String {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            match cells[..] {
                [name, missing, ..] if missing.starts_with("missing: ") => {
                    format!(
                        "<tr><td>{}</td><td colspan=\"{}\">{}</td></tr>\n",
                        inline(name),
                        cells.len() - 1,
                        inline(missing)
                    )
                }
                _ => format!(
                    "<tr>{}</tr>\n",
                    cells
                        .iter()
                        .map(|text| format!("<{cell}>{}</{cell}>", inline(text)))
                        .collect::<String>()
                ),
            }
        };
        let ruled = |n: usize| lines.get(n).is_some_and(|line| line.starts_with("|--"));
        match line.strip_prefix("## ") {
            Some(title) => _ = writeln!(out, "<h2>{}</h2>", inline(title)),
            None if ruled(n + 1) => {
                out.push_str(&format!("<div class=\"wide\"><table>\n{}", row(line, "th")))
            }
            None if line.starts_with('|') && !ruled(n) => out.push_str(&row(line, "td")),
            None if line.is_empty() && n > 0 && lines[n - 1].starts_with('|') => {
                out.push_str("</table></div>\n")
            }
            None => {}
        }
    }
    if lines.last().is_some_and(|line| line.starts_with('|')) {
        out.push_str("</table></div>\n");
    }
    out
}

/// Text with code in backticks.
fn inline(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let parts = escaped.split('`').enumerate();
    parts
        .map(|(n, part)| if n % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::table::tests::report;

    #[test]
    fn the_page_stands_alone_and_closes_what_it_opens() {
        let page = page(&report()).unwrap();
        for address in ["<script", "<link", "@import", "url(", " src="] {
            assert!(!page.contains(address), "{address}");
        }
        for tag in ["table", "tr", "div", "figure", "svg"] {
            let count = |text: &str| page.matches(text).count();
            assert_eq!(
                count(&format!("<{tag}>")) + count(&format!("<{tag} ")),
                count(&format!("</{tag}>")),
                "{tag}"
            );
        }
        assert!(
            page.contains("<td colspan=\"6\">missing: no <code>bwrap</code> on this machine</td>")
        );
        assert_eq!(page.matches("<figure").count(), 6);
    }
}
