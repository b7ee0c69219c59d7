//! Differences between two runs as text.

use serde_json::Value;
use skillhost_ledger::receipt::compare::Difference;
use skillhost_policy::diagnostic::printable;

/// The most differences that are printed; `--json` has all.
pub(crate) const MAX: usize = 10;

/// What the two sides of a difference are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sides(pub(crate) &'static str, pub(crate) &'static str);

impl Sides {
    /// A difference in a line or two: the field, and what each side has there.
    pub(crate) fn describe(self, difference: &Difference) -> String {
        let Sides(left, right) = self;
        let Difference { field, receipt, here, bytes } = difference;
        let field = printable(field);
        match bytes {
            Some(bytes) => {
                let width = left.len().max(right.len());
                format!(
                    "{field}: from byte {}:\n  {left:width$}  {}\n  {right:width$}  {}",
                    bytes.offset, bytes.receipt, bytes.here
                )
            }
            None => {
                let (receipt, here) = (value(receipt.as_ref()), value(here.as_ref()));
                format!("{field} ({left}: {receipt}, {right}: {here})")
            }
        }
    }

    /// The first differences, one per line, and how many more there are.
    pub(crate) fn list<'d>(
        self,
        differences: impl ExactSizeIterator<Item = &'d Difference>,
    ) -> String {
        let more = differences.len().saturating_sub(MAX);
        let mut lines: Vec<String> =
            differences.take(MAX).map(|difference| self.describe(difference)).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        lines.join("\n")
    }
}

fn value(value: Option<&Value>) -> String {
    /// The most bytes of a value that are printed.
    const MOST: usize = 100;
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    if text.len() <= MOST {
        printable(&text)
    } else {
        format!("{}...", printable(&text[..text.floor_char_boundary(MOST)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_both_sides() {
        let mut difference = Difference {
            field: "skill.name".into(),
            receipt: Some("a".into()),
            here: None,
            bytes: None,
        };
        let sides = Sides("receipt", "here");
        assert_eq!(sides.describe(&difference), "skill.name (receipt: \"a\", here: nothing)");
        difference.here = Some("x".repeat(200).into());
        let text = sides.list([&difference; 12].into_iter());
        assert!(text.lines().all(|line| line.len() < 200), "{text}");
        assert!(text.ends_with("\nand 2 more"), "{text}");
    }
}
