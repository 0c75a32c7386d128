//! The handwritten digits that ship with the program.

use std::io::Read as _;
use std::path::Path;

use crate::data::{InMemory, Normalization, Split};
use crate::error::{Error, Result};

use super::{HELD_OUT_KEY, HELD_OUT_PERCENT};

/// Part of each digit's pictures that is held out for testing.
pub const DIGITS_TEST_PERCENT: usize = HELD_OUT_PERCENT;

const FILE: &str = "assets/digits.csv.gz";
const SIDE: usize = 8;
const PIXELS: usize = SIDE * SIDE;
const LARGEST: u8 = 16;
const CLASSES: usize = 10;

/// The bundled digits: 1,797 grey pictures of 8x8 pixels from the UCI repository (see `assets/digits.LICENSE.md`), of
/// which 20 % of each digit, always the same ones, are the test set.
///
/// # Errors
/// Never in practice: if the bundled file is damaged.
pub fn digits() -> Result<Split<InMemory>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&include_bytes!("../../../assets/digits.csv.gz")[..])
        .read_to_string(&mut text)
        .map_err(|error| Error::io(FILE, error))?;
    Ok(parse_digits(Path::new(FILE), &text)?.split_stratified(DIGITS_TEST_PERCENT, HELD_OUT_KEY))
}

/// Reads lines of 64 pixels (0 to 16, row by row) and a label (0 to 9), separated by commas. `path` is for messages.
///
/// # Errors
/// [`Error::Format`], with the line, if a line has not 64 pixels and a label in their ranges, or the text is empty or
/// ends within a line.
pub fn parse_digits(path: &Path, text: &str) -> Result<InMemory> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    if !text.is_empty() && !text.ends_with('\n') {
        let last = text.lines().count();
        return Err(Error::format(path, format!("line {last}: the file is cut off: it should end with a newline")));
    }
    for (number, line) in text.lines().enumerate() {
        let wrong = |reason: String| Error::format(path, format!("line {}: {reason}", number + 1));
        let fields: Vec<&str> = line.split(',').collect();
        let Some((label, values)) = fields.split_last().filter(|(_, values)| values.len() == PIXELS) else {
            return Err(wrong(format!("{} values instead of {PIXELS} pixels and a label", fields.len())));
        };
        for (column, value) in values.iter().enumerate() {
            match value.trim().parse() {
                Ok(pixel @ 0..=LARGEST) => pixels.push(pixel),
                _ => {
                    let column = column + 1;
                    return Err(wrong(format!("pixel {column} is `{value}` instead of an integer in 0..={LARGEST}")));
                }
            }
        }
        match label.trim().parse() {
            Ok(label) if (label as usize) < CLASSES => labels.push(label),
            _ => return Err(wrong(format!("the label is `{label}` instead of an integer in 0..{CLASSES}"))),
        }
    }
    if labels.is_empty() {
        return Err(Error::format(path, "line 1: the file is empty: expected one picture a line"));
    }
    let classes = (0..CLASSES).map(|digit| digit.to_string()).collect();
    let normalization = Normalization { mean: vec![0.0], std: vec![f32::from(LARGEST)] };
    Ok(InMemory::new("digits", classes, [1, SIDE, SIDE], normalization, pixels, labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset as _, Sample, Target, Values};

    fn line(pixel: &str, label: &str) -> String {
        format!("{}{pixel},{label}\n", "0,".repeat(PIXELS - 1))
    }

    fn reason(text: &str) -> String {
        let error = parse_digits(Path::new("digits.csv"), text).expect_err("should be refused");
        assert!(matches!(error, Error::Format { .. }));
        error.to_string()
    }

    #[test]
    fn the_bundled_digits_are_whole() {
        let split = digits().expect("the bundled file is good");
        assert_eq!(split.train.len() + split.test.len(), 1797);
        assert_eq!(split.test.len(), 359);
        // Counts of each digit in the UCI test set.
        let totals = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        for (class, total) in totals.into_iter().enumerate() {
            let count = |part: &InMemory| part.labels().iter().filter(|&&label| label as usize == class).count();
            let held_out = count(&split.test);
            assert_eq!(count(&split.train) + held_out, total);
            assert!((held_out as f64 / total as f64 - 0.2).abs() < 0.01);
        }
        let mut sample = Sample::default();
        split.test.get(0, &mut sample).expect("in memory");
        let Values::U8(pixels) = sample.input else { panic!("pictures are bytes") };
        assert!(pixels.iter().all(|&p| p <= LARGEST) && pixels.iter().any(|&p| p > 8));
    }

    #[test]
    fn lines_are_read() {
        let data = parse_digits(Path::new("x"), &(line("16", "9") + &line("3", "0"))).expect("good lines");
        assert_eq!(data.labels(), [9, 0]);
        let mut sample = Sample::default();
        data.get(1, &mut sample).expect("in memory");
        assert_eq!((&sample.shape[..], &sample.target), (&[1, SIDE, SIDE][..], &Target::Class(0)));
        let Values::U8(pixels) = sample.input else { panic!("pictures are bytes") };
        assert_eq!((pixels[0], pixels[PIXELS - 1]), (0, 3));
    }

    #[test]
    fn damage_is_named_by_line() {
        let good = line("1", "1");
        assert!(reason(&(good.clone() + &line("17", "1"))).contains("digits.csv: line 2: pixel 64 is `17`"));
        assert!(reason(&line("-1", "1")).contains("line 1: pixel 64 is `-1`"));
        assert!(reason(&line("x", "1")).contains("pixel 64 is `x`"));
        assert!(reason(&line("1", "10")).contains("line 1: the label is `10`"));
        assert!(reason(&line("1", "")).contains("the label is ``"));
        assert!(reason(&(good.clone() + "1,2,3\n")).contains("line 2: 3 values instead of 64"));
        assert!(reason(&(good.clone() + "\n")).contains("line 2: 1 values"));
        assert!(reason(good.trim_end()).contains("line 1: the file is cut off"));
        assert!(reason("").contains("line 1: the file is empty"));
    }
}
