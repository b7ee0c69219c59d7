//! Tables of figures, as Markdown and as HTML.

use std::fmt::Write as _;

/// A table. Its first column is aligned left. The others, which have figures, are aligned right,
/// unless [`left`](Table::left) lists them.
pub(crate) struct Table {
    head: Vec<String>,
    left: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
        let head = head.into_iter().map(Into::into).collect();
        Table { head, left: vec![0], rows: Vec::new() }
    }

    /// Aligns more columns left.
    pub(crate) fn left(mut self, columns: impl IntoIterator<Item = usize>) -> Table {
        self.left.extend(columns);
        self
    }

    /// Adds a row. The last cell of a row that is shorter than the head spans the other columns.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let cell = |cell: S| cell.into().replace(['|', '\n'], " ");
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub(crate) fn markdown(&self) -> String {
        let rule = |column| if self.left.contains(&column) { "---|" } else { "--:|" };
        let rules: String = (0..self.head.len()).map(rule).collect();
        let mut text = format!("| {} |\n|{rules}\n", self.head.join(" | "));
        for row in &self.rows {
            let spanned = "  |".repeat(self.head.len() - row.len());
            _ = writeln!(text, "| {} |{spanned}", row.join(" | "));
        }
        text
    }

    pub(crate) fn html(&self) -> String {
        let mut text = String::from("<div class=\"wide\"><table>\n");
        for (cell, row) in
            [("th", &self.head)].into_iter().chain(self.rows.iter().map(|row| ("td", row)))
        {
            text.push_str("<tr>");
            for (column, content) in row.iter().enumerate() {
                let spanned = self.head.len() - column;
                if column + 1 == row.len() && spanned > 1 {
                    _ = write!(text, "<{cell} colspan=\"{spanned}\">");
                } else {
                    _ = write!(text, "<{cell}>");
                }
                _ = write!(text, "{}</{cell}>", inline(content));
            }
            text.push_str("</tr>\n");
        }
        text + "</table></div>\n"
    }
}

/// Returns a figure, or the reason why it is missing.
pub(crate) fn or_missing(figure: Option<String>, missing: Option<&str>) -> String {
    figure.unwrap_or_else(|| format!("missing: {}", missing.unwrap_or("not measured")))
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Converts a line of Markdown, which may have code in backticks, to HTML.
pub(crate) fn inline(text: &str) -> String {
    let part = |(number, part)| match number % 2 {
        1 => format!("<code>{part}</code>"),
        _ => String::from(part),
    };
    escaped(text).split('`').enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["tier", "time", "goal"]).left([2]);
        table.row(["`cold`", "1 ms", ""]);
        table.row(["runc", "missing: a | b"]);
        table
    }

    #[test]
    fn markdown_has_alignments_and_full_rows() {
        let rows = "| `cold` | 1 ms |  |\n| runc | missing: a   b |  |\n";
        assert_eq!(table().markdown(), format!("| tier | time | goal |\n|---|--:|---|\n{rows}"));
    }

    #[test]
    fn html_has_code_and_cells_that_span_columns() {
        let head =
            "<div class=\"wide\"><table>\n<tr><th>tier</th><th>time</th><th>goal</th></tr>\n";
        let cold = "<tr><td><code>cold</code></td><td>1 ms</td><td></td></tr>\n";
        let runc = "<tr><td>runc</td><td colspan=\"2\">missing: a   b</td></tr>\n";
        assert_eq!(table().html(), format!("{head}{cold}{runc}</table></div>\n"));
        assert_eq!(inline("a < `b & c`"), "a &lt; <code>b &amp; c</code>");
    }
}
