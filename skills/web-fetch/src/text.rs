//! Builds text: collapses white space, separates blocks, and indents lines in lists and quotations.

/// The maximum indentation of lists: pages may be nested arbitrarily deep.
const MOST_INDENT: usize = 10;

/// A text builder.
#[derive(Default)]
pub struct Text {
    out: String,
    /// Line breaks to write before the next text.
    breaks: usize,
    /// Whether to write a space before the next text.
    blank: bool,
    /// The open lists, with the next number of numbered ones.
    lists: Vec<Option<u32>>,
    quotes: usize,
    code: usize,
    /// For each open table: the cells of the current row, and whether the first row is complete.
    tables: Vec<(usize, bool)>,
    cells: usize,
}

impl Text {
    /// Adds text and collapses white space, except within code.
    pub fn text(&mut self, text: &str) {
        if self.code > 0 {
            self.due();
            self.out.push_str(text);
            return;
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.blank = true;
                continue;
            }
            self.due();
            // A bar would end the cell.
            if c == '|' && self.cells > 0 {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }

    /// Adds a mark before the next text, such as `## `.
    pub fn mark(&mut self, mark: &str) {
        if self.cells == 0 {
            self.due();
            self.out.push_str(mark);
        }
        self.blank = false;
    }

    /// Starts a new line after so many line breaks. A cell has only one line.
    pub fn block(&mut self, breaks: usize) {
        if self.cells > 0 {
            self.blank = true;
        } else if self.at_mark() {
            self.blank = false;
        } else {
            self.breaks = self.breaks.max(breaks);
            self.blank = false;
        }
    }

    /// Begins a list, numbered from `first` or with bullets.
    pub fn open_list(&mut self, first: Option<u32>) {
        self.block(if self.lists.is_empty() { 2 } else { 1 });
        self.lists.push(first);
    }

    /// Ends a list.
    pub fn close_list(&mut self) {
        self.lists.pop();
        self.breaks_after(if self.lists.is_empty() { 2 } else { 1 });
    }

    /// Begins an item of a list.
    pub fn item(&mut self) {
        if self.cells > 0 {
            return self.block(1);
        }
        // An item starts on a new line, even if it has no text.
        self.breaks =
            if self.breaks >= 2 && self.lists.len() < 2 && !self.in_list_already() { 2 } else { 1 };
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}. ", number.saturating_sub(1))
            }
            _ => "- ".to_owned(),
        };
        let list = self.lists.pop();
        self.due();
        self.lists.extend(list);
        self.out.push_str(&mark);
    }

    /// Begins a quotation.
    pub fn open_quote(&mut self) {
        self.block(2);
        self.quotes += 1;
    }

    /// Ends a quotation.
    pub fn close_quote(&mut self) {
        self.quotes = self.quotes.saturating_sub(1);
        self.breaks_after(2);
    }

    /// Begins code.
    pub fn open_code(&mut self) {
        self.block(2);
        if self.cells == 0 && self.code == 0 {
            self.due();
            self.out.push_str("```\n");
        }
        self.code += 1;
    }

    /// Ends code.
    pub fn close_code(&mut self) {
        self.code = self.code.saturating_sub(1);
        if self.cells == 0 && self.code == 0 {
            if !self.out.ends_with('\n') {
                self.out.push('\n');
            }
            self.out.push_str("```");
        }
        self.breaks_after(2);
    }

    /// Adds a horizontal rule.
    pub fn rule(&mut self) {
        self.block(2);
        self.mark("---");
        self.breaks_after(2);
    }

    /// Begins a table. Inside the cell of another table, its cells are plain text.
    pub fn open_table(&mut self) {
        self.block(2);
        self.tables.push((0, false));
    }

    /// Ends a table.
    pub fn close_table(&mut self) {
        self.tables.pop();
        self.breaks_after(2);
    }

    /// Begins a row.
    pub fn open_row(&mut self) {
        self.block(1);
        if let Some((cells, _)) = self.tables.last_mut() {
            *cells = 0;
        }
    }

    /// Ends a row.
    pub fn close_row(&mut self) {
        if self.cells > 0 || self.tables.len() != 1 {
            return;
        }
        let Some((cells, headed)) = self.tables.last_mut() else { return };
        let first = !std::mem::replace(headed, true) && *cells > 0;
        if first {
            let line = format!("\n|{}", " --- |".repeat(*cells));
            self.out.push_str(&line);
        }
        self.breaks_after(1);
    }

    /// Begins a cell.
    pub fn open_cell(&mut self) {
        if self.cells == 0 && self.tables.len() == 1 {
            let first = self.tables.last().is_some_and(|(cells, _)| *cells == 0);
            if first {
                self.due();
                self.out.push('|');
            }
            self.out.push(' ');
        }
        self.cells += 1;
        self.blank = false;
    }

    /// Ends a cell.
    pub fn close_cell(&mut self) {
        self.cells = self.cells.saturating_sub(1);
        if self.cells == 0 && self.tables.len() == 1 {
            self.out.push_str(" |");
            self.blank = false;
            if let Some((cells, _)) = self.tables.last_mut() {
                *cells += 1;
            }
        } else {
            self.blank = true;
        }
    }

    /// Returns the length of the text.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the text after this length.
    pub fn since(&self, length: usize) -> &str {
        self.out.get(length..).unwrap_or_default()
    }

    /// Returns the whole text.
    pub fn finish(self) -> String {
        self.out.trim_end().to_owned()
    }

    fn breaks_after(&mut self, breaks: usize) {
        if self.cells > 0 {
            self.blank = true;
        } else {
            self.breaks = self.breaks.max(breaks);
            self.blank = false;
        }
    }

    /// Whether the line has only the mark of an item: a paragraph of the item continues on that
    /// line.
    fn at_mark(&self) -> bool {
        let line = self.out.rsplit('\n').next().unwrap_or_default().trim_start_matches([' ', '>']);
        let numbered = line
            .strip_suffix(". ")
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        self.breaks == 0 && (line == "- " || numbered)
    }

    fn in_list_already(&self) -> bool {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.starts_with("- ")
            || line
                .split_once(". ")
                .is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Writes pending line breaks, indentation and spaces.
    fn due(&mut self) {
        let breaks = std::mem::take(&mut self.breaks);
        let blank = std::mem::take(&mut self.blank);
        if breaks > 0 || self.out.is_empty() {
            if !self.out.is_empty() {
                self.out.extend(std::iter::repeat_n('\n', breaks));
            }
            self.out.extend(std::iter::repeat_n("> ", self.quotes.min(MOST_INDENT)));
            self.out.extend(std::iter::repeat_n("  ", self.lists.len().min(MOST_INDENT)));
        } else if blank && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
    }
}
