//! What the cases read: files that are the same at every run.

use std::fmt::Write as _;
use std::path::Path;

use skillhost_toolchain::{Error, files};

use super::cases;

const CITIES: [&str; 8] = ["London", "Paris", "Nairobi", "Lima", "Osaka", "Quito", "Oslo", "Perth"];

/// Lines of the access log.
const LOG_LINES: u64 = 10_000;

/// Writes them.
pub(crate) fn write(folder: &Path) -> Result<(), Error> {
    for size in cases::SIZES.into_iter().chain([cases::INPUT]) {
        files::write_if_changed(&folder.join(cases::csv_name(size)), csv(size).as_bytes())?;
    }
    files::write_if_changed(&folder.join("orders.json"), json(cases::INPUT).as_bytes())?;
    files::write_if_changed(&folder.join("access.log"), log().as_bytes())?;
    Ok(())
}

fn csv(bytes: u64) -> String {
    let mut text = String::from("id,date,city,quantity,total,note\n");
    for order in orders() {
        if text.len() as u64 >= bytes {
            break;
        }
        let Order { id, day, city, quantity, cents } = order;
        // What a profile of real data meets: missing values, and fields with quotes.
        let note = if id % 7 == 0 { "\"late, again\"" } else { "" };
        let day = 1 + day % 28;
        _ = writeln!(
            text,
            "{id},2024-{:02}-{day:02},{city},{quantity},{}.{:02},{note}",
            1 + id % 12,
            cents / 100,
            cents % 100
        );
    }
    text
}

fn json(bytes: u64) -> String {
    let mut text = String::from("[");
    for order in orders() {
        if text.len() as u64 >= bytes {
            break;
        }
        let Order { id, day, city, quantity, cents } = order;
        let comma = if id == 1 { "" } else { "," };
        _ = write!(
            text,
            "{comma}\n{{\"id\":{id},\"day\":{day},\"city\":\"{city}\",\"quantity\":{quantity},\"total\":{}.{:02}}}",
            cents / 100,
            cents % 100
        );
    }
    text + "\n]\n"
}

fn log() -> String {
    let mut text = String::new();
    for Order { id, day, city, cents, .. } in orders().take_while(|order| order.id <= LOG_LINES) {
        let status = [200, 200, 200, 304, 404, 200, 500, 200][(cents % 8) as usize];
        let path = if id % 10 == 0 {
            "/health".to_owned()
        } else {
            format!("/{}/{day}", city.to_lowercase())
        };
        let (minute, second) = (id / 60 % 60, id % 60);
        _ = writeln!(
            text,
            "10.0.0.{} - - [10/Oct/2024:13:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" {status} {cents}",
            day % 256
        );
    }
    text
}

struct Order {
    id: u64,
    day: u64,
    city: &'static str,
    quantity: u64,
    cents: u64,
}

/// Without end, and always the same.
fn orders() -> impl Iterator<Item = Order> {
    // Knuth's constants of MMIX: no dependency for numbers that need not be random.
    let mut state = 1u64;
    let mut next = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
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
    fn inputs_have_their_size_and_are_always_the_same() {
        let csv_file = csv(100_000);
        assert!((100_000..100_100).contains(&csv_file.len()) && csv_file == csv(100_000));
        assert!(csv_file.lines().all(|line| line.split(',').count() >= 6));
        let parsed: serde_json::Value = serde_json::from_str(&json(50_000)).unwrap();
        assert!(parsed.as_array().unwrap().len() > 500);
        assert_eq!(log().lines().count() as u64, LOG_LINES);
    }
}
