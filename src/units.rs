//! Numbers as people read them.

use std::fmt;

/// A size in memory: `512 B`, `1.5 KiB`, `128 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(value.fract() != 0.0);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A whole number with commas between groups of three digits.
pub(crate) fn thousands(number: impl fmt::Display) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 step`, `1,000 steps`.
pub(crate) fn counted(number: impl fmt::Display, what: &str) -> String {
    let number = thousands(number);
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The first few of many names.
pub(crate) fn some(names: &[impl AsRef<str>]) -> String {
    const MOST: usize = 4;
    let first = names.iter().take(MOST).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{first}, ...") } else { first }
}

/// What a device that does `times` as much as `reference` may cost.
pub(crate) fn pays_off(device: &str, reference: &str, times: f64) -> String {
    let decimals = if times < 0.995 { 2 } else { 1 };
    format!(
        "{device} pays off if an hour of it costs less than {times:.decimals$} x an hour of {reference}, in rent or in energy"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([512, 1536, 128 << 20].map(bytes), ["512 B", "1.5 KiB", "128 MiB"]);
        assert!(pays_off("gpu:0", "cpu", 0.153).contains("less than 0.15 x an hour of cpu"));
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
