//! Formats figures with two or three significant digits and a unit.

/// Bytes in a mebibyte.
pub(crate) const MEBIBYTE: f64 = 1_048_576.0;

/// A number that can be formatted.
pub(crate) trait Number {
    fn float(self) -> f64;
}

impl Number for f64 {
    fn float(self) -> f64 {
        self
    }
}

impl Number for u64 {
    fn float(self) -> f64 {
        self as f64
    }
}

/// Formats a time in nanoseconds.
pub(crate) fn time(nanoseconds: impl Number) -> String {
    scaled(nanoseconds.float(), &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// Formats a size in bytes, in powers of 1024.
pub(crate) fn size(bytes: impl Number) -> String {
    const UNITS: [(&str, f64); 4] =
        [("B", 1.0), ("KiB", 1024.0), ("MiB", MEBIBYTE), ("GiB", 1_073_741_824.0)];
    scaled(bytes.float(), &UNITS)
}

/// Formats a time in nanoseconds, always in milliseconds: columns and axes of one unit can be
/// compared.
pub(crate) fn milliseconds(nanoseconds: impl Number) -> String {
    format!("{} ms", grouped(nanoseconds.float() / 1e6))
}

/// Formats a size in bytes, always in mebibytes.
pub(crate) fn mebibytes(bytes: impl Number) -> String {
    in_mebibytes(bytes.float() / MEBIBYTE)
}

/// Formats a number of mebibytes.
pub(crate) fn in_mebibytes(number: f64) -> String {
    format!("{} MiB", grouped(number))
}

/// Formats the size of an input, always in megabytes.
pub(crate) fn input(bytes: impl Number) -> String {
    match bytes.float() / 1e6 {
        megabytes if megabytes < 1.0 => format!("{megabytes:.1} MB"),
        megabytes => format!("{megabytes:.0} MB"),
    }
}

/// Formats a count. Large counts have three digits, because more would be noise.
pub(crate) fn count(number: impl Number) -> String {
    grouped(number.float())
}

/// Formats a number with two digits. Large numbers have three, in groups.
fn grouped(number: f64) -> String {
    if number < 100.0 {
        return digits(number);
    }
    let scale = 10f64.powf(number.log10().floor() - 2.0);
    let rounded = format!("{:.0}", (number / scale).round() * scale);
    let groups = rounded.as_bytes().rchunks(3).rev();
    groups.map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
}

/// Formats the ratio of two figures.
pub(crate) fn ratio(of: u64, to: u64) -> String {
    digits(of as f64 / to as f64)
}

/// Formats a ratio with three digits, to compare it with a bound that has two.
pub(crate) fn exact_ratio(of: u64, to: u64) -> String {
    match of as f64 / to as f64 {
        ratio if ratio < 1.0 => format!("{ratio:.3}"),
        ratio if ratio < 10.0 => format!("{ratio:.2}"),
        ratio => digits(ratio),
    }
}

fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let fits = |(_, factor): &&(&str, f64)| value >= *factor;
    let (unit, factor) = units.iter().rev().find(fits).unwrap_or(&units[0]);
    format!("{} {unit}", digits(value / factor))
}

fn digits(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.3}"),
        v if v < 1.0 => format!("{v:.2}"),
        v if v < 10.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_a_unit_and_few_digits() {
        assert_eq!(
            [180_000.0, 2_730_000.0, 27_400_000.0, 1_733_000_000.0, 12.0].map(time),
            ["180 µs", "2.7 ms", "27 ms", "1.7 s", "12 ns"]
        );
        assert_eq!([900u64, 3 << 20, 3 << 29].map(size), ["900 B", "3.0 MiB", "1.5 GiB"]);
        assert_eq!([100_000.0, 1e6, 2e7].map(input), ["0.1 MB", "1 MB", "20 MB"]);
        assert_eq!(
            [7.25, 41.0, 123.4, 40_123.0, 1_234_567.0].map(count),
            ["7.2", "41", "123", "40,100", "1,230,000"]
        );
        assert_eq!(
            [ratio(3, 10), ratio(15, 10), ratio(350, 10), ratio(1, 50)],
            ["0.30", "1.5", "35", "0.020"]
        );
        assert_eq!(
            [exact_ratio(1, 3), exact_ratio(209, 100), exact_ratio(557, 10)],
            ["0.333", "2.09", "56"]
        );
    }
}
