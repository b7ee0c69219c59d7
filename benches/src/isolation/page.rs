//! Renders a report as a self-contained HTML page, without scripts, fonts or external resources.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use skillhost_toolchain::{Error, files};

use super::charts::{self, Chart};
use super::figures::Report;
use super::tables;
use crate::report;
use crate::table::inline;

const HEAD: &str = "\
<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">
<title>skillhost: the cost of isolation</title>
";

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1f2328;--soft:#59636e;--line:#d1d9e0;--page:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--page:#0d1117}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1rem;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.15rem;margin:0 0 .25rem}p{margin:.25rem 0 .75rem}\
.soft,figcaption{color:var(--soft);font-size:.9rem}.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:2rem;margin:1.5rem 0}\
figure{margin:0}figure svg{width:100%;height:auto;display:block}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.25rem 0 1.5rem}th,td{border-bottom:1px solid var(--line);padding:.25rem .6rem;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}td[colspan]{white-space:normal;text-align:left;color:var(--soft)}code{font-size:.9em}";

pub(crate) fn page(report: &Report) -> String {
    let mut text = format!("{HEAD}<style>{STYLE}</style>\n<h1>The cost of isolation</h1>\n");
    let soft = |text: &str| format!("<p class=\"soft\">{}</p>\n", inline(text));
    text += &soft(&report.header.summary(""));
    text += "<div class=\"grid\">\n";
    for Chart { id, title, caption, svg } in charts::all(report) {
        let svg = svg.trim_end();
        _ = writeln!(
            text,
            "<figure id=\"{id}\"><h2>{title}</h2>\n{svg}\n<figcaption>{caption}</figcaption></figure>"
        );
    }
    text += "</div>\n";
    text.extend(report.gaps().map(|gap| soft(&gap)));
    for (title, table) in tables::all(report) {
        _ = write!(text, "<h2>{}</h2>\n{}", inline(&title), table.html());
    }
    text + "</html>\n"
}

/// Writes the page and the JSON of a run to a folder, and returns the path of the page.
pub(crate) fn save(report: &Report, folder: &Path) -> Result<PathBuf, Error> {
    report::save(report, folder)?;
    let file = folder.join("isolation.html");
    files::write_if_changed(&file, page(report).as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn page_is_self_contained_and_closes_its_tags() {
        let page = page(&report());
        for address in ["<script", "<link", "@import", "url(", " src="] {
            assert!(!page.contains(address), "{address}");
        }
        for tag in ["table", "tr", "div", "figure", "svg"] {
            let count = |text: String| page.matches(&text).count();
            let opened = count(format!("<{tag}>")) + count(format!("<{tag} "));
            assert_eq!(opened, count(format!("</{tag}>")), "{tag}");
        }
        let missing = "<td colspan=\"6\">missing: no <code>bwrap</code> on this machine</td>";
        assert!(page.contains(missing));
        assert_eq!(page.matches("<figure").count(), 6);
    }
}
