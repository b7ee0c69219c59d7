//! The input files of the cases, which are the same in every run.

use std::path::Path;

use skillhost_toolchain::{Error, files};

use crate::cases;
use crate::random::Random;

const CITIES: [&str; 8] = ["London", "Paris", "Nairobi", "Lima", "Osaka", "Quito", "Oslo", "Perth"];

/// The number of lines of the access log.
const LOG_LINES: usize = 10_000;

/// Writes the input files.
pub(crate) fn write(folder: &Path) -> Result<(), Error> {
    let write =
        |name: &str, text: String| files::write_if_changed(&folder.join(name), text.as_bytes());
    for size in cases::SIZES {
        write(&cases::csv_name(size), csv(size))?;
    }
    for size in [cases::INPUT, cases::TRANSFORMED] {
        write(&cases::json_name(size), json(size))?;
    }
    write("access.log", log())?;
    Ok(())
}

fn csv(bytes: u64) -> String {
    text("id,date,city,quantity,total,note\n", bytes, |order| {
        let Order { id, day, city, quantity, .. } = order;
        // As in real data, there are missing values, and fields with quotes.
        let note = if id % 7 == 0 { "\"late, again\"" } else { "" };
        let (month, day, total) = (1 + id % 12, 1 + day % 28, order.total());
        format!("{id},2024-{month:02}-{day:02},{city},{quantity},{total},{note}\n")
    })
}

fn json(bytes: u64) -> String {
    let orders = text("[", bytes, |order| {
        let Order { id, day, city, quantity, .. } = order;
        let (comma, total) = (if id == 1 { "" } else { "," }, order.total());
        format!(
            "{comma}\n{{\"id\":{id},\"day\":{day},\"city\":\"{city}\",\"quantity\":{quantity},\"total\":{total}}}"
        )
    });
    orders + "\n]\n"
}

fn log() -> String {
    let line = |Order { id, day, city, cents, .. }: Order| {
        let status = [200, 200, 200, 304, 404, 200, 500, 200][(cents % 8) as usize];
        let path = match id % 10 {
            0 => "/health".to_owned(),
            _ => format!("/{}/{day}", city.to_lowercase()),
        };
        let (host, minute, second) = (day % 256, id / 60 % 60, id % 60);
        format!(
            "10.0.0.{host} - - [10/Oct/2024:13:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" {status} {cents}\n"
        )
    };
    orders().take(LOG_LINES).map(line).collect()
}

/// Returns a text of at least this many bytes, with a line for each order.
fn text(head: &str, bytes: u64, line: impl Fn(Order) -> String) -> String {
    let mut text = head.to_owned();
    let mut lines = orders().map(line);
    while (text.len() as u64) < bytes {
        text.extend(lines.next());
    }
    text
}

#[derive(Clone, Copy)]
struct Order {
    id: u64,
    day: u64,
    city: &'static str,
    quantity: u64,
    cents: u64,
}

impl Order {
    fn total(self) -> String {
        format!("{}.{:02}", self.cents / 100, self.cents % 100)
    }
}

/// Returns an endless sequence of orders, which is always the same.
fn orders() -> impl Iterator<Item = Order> {
    let mut random = Random::new(1);
    let mut next = move |end| random.below(end) as u64;
    (1..).map(move |id| Order {
        id,
        day: next(365),
        city: CITIES[next(8) as usize],
        quantity: 1 + next(20),
        cents: 100 + next(100_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_the_requested_size_and_are_reproducible() {
        let csv_file = csv(100_000);
        assert!((100_000..100_100).contains(&csv_file.len()) && csv_file == csv(100_000));
        assert!(csv_file.lines().all(|line| line.split(',').count() >= 6));
        let parsed: serde_json::Value = serde_json::from_str(&json(50_000)).unwrap();
        assert!(parsed.as_array().unwrap().len() > 500);
        assert_eq!(log().lines().count(), LOG_LINES);
    }
}
