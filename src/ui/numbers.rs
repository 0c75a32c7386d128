//! Numbers as people read them.

/// A number with as many digits as are of use, and enough to tell it from one that is larger by `step`.
pub(super) fn number(value: f64, step: f64) -> String {
    let size = value.abs();
    // digits after the point: of the mantissa, and of the number itself
    let after =
        |unit: f64, least: usize| (((unit / step.abs()).log10() - 1e-9).ceil().clamp(0.0, 15.0) as usize).max(least);
    if value == 0.0 {
        "0".into()
    } else if !(1e-4..1e6).contains(&size) {
        let digits = after(10_f64.powf(size.log10().floor()), 1);
        format!("{value:.digits$e}")
    } else if value.fract() == 0.0 || (size >= 1e3 && step.abs() >= 1.0) {
        format!("{value:.0}")
    } else {
        // two digits of use, however small it is
        let digits = after(1.0, 4).max((1.0 - size.log10().floor()) as usize);
        let text = format!("{value:.digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Two digits of a number.
pub(super) fn two_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        10.0..1e4 => format!("{value:.0}"),
        size @ 1e-3..10.0 => format!("{value:.*}", (1.0 - size.log10().floor()) as usize),
        _ => format!("{value:.1e}"),
    }
}

/// The score of a model: a part of 1 in percent, or R² of one that predicts numbers, which may be below 0.
pub(super) fn score(score: f64, regresses: bool) -> String {
    if regresses { format!("R² {score:.4}") } else { format!("{:.2} %", 100.0 * score) }
}

/// What stands where nothing is known.
pub(super) const UNKNOWN: &str = "–";

/// A time, as people say it.
pub(super) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return UNKNOWN.into();
    }
    let tenths = (10.0 * seconds.max(0.0)).round();
    let (whole, minutes) = (seconds.max(0.0).round() as u64, (seconds.max(0.0) / 60.0).round() as u64);
    match whole {
        _ if tenths == 0.0 => "0 s".into(),
        _ if tenths < 100.0 => format!("{:.1} s", tenths / 10.0),
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        let said = [0.42, 9.84, 9.96, 59.0, 59.6, 61.0, 3599.0, 3599.7, 7289.0].map(duration);
        let expected = ["0.4 s", "9.8 s", "10 s", "59 s", "1:00 min", "1:01 min", "59:59 min", "1:00 h", "2:01 h"];
        assert_eq!(said, expected);
        assert_eq!([0.0, 0.01, -1.0, f64::INFINITY, f64::NAN].map(duration), ["0 s", "0 s", "0 s", "–", "–"]);
    }

    #[test]
    fn two_digits_are_enough_to_compare() {
        let said = [0.0, 0.0591, 0.42, 7.0, 12.4, 1234.0, 3e5, 2e-5, f64::INFINITY].map(two_digits);
        assert_eq!(said, ["0", "0.059", "0.42", "7.0", "12", "1234", "3.0e5", "2.0e-5", "inf"]);
    }

    #[test]
    fn numbers_have_the_digits_of_use() {
        let said = [0.0, 1.0, 0.5, 0.1234567, 1234.5, 12_345_678.0, 5e-4, 1.24e-4, 1e-5, -2.5]
            .map(|value| number(value, value));
        assert_eq!(said, ["0", "1", "0.5", "0.1235", "1234", "1.2e7", "0.0005", "0.00012", "1.0e-5", "-2.5"]);
        let near = [(8.0e-5, 1e-7), (8.01e-5, 1e-7), (2.00001, 1e-5), (1234.5, 0.5), (12_345_678.0, 1.0)];
        let said = near.map(|(value, step)| number(value, step));
        assert_eq!(said, ["8.00e-5", "8.01e-5", "2.00001", "1234.5", "1.2345678e7"]);
    }
}
