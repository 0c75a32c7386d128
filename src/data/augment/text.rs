//! Augmentations as text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Augment, Change};
use crate::error::{Error, Result};
use crate::tensor::Outside;

/// What can be written about a change.
struct Row {
    change: Change,
    name: &'static str,
    default: f64,
    /// Least and largest amount.
    range: [f64; 2],
    /// Whether it counts pixels or epochs.
    whole: bool,
}

const fn row(change: Change, name: &'static str, default: f64, range: [f64; 2]) -> Row {
    Row { change, name, default, range, whole: matches!(change, Change::AlternateFlip | Change::Crop | Change::Cutout) }
}

/// The largest number of pixels or epochs: beyond it a float does not hold every number.
const PIXELS: f64 = 65_535.0;

const TABLE: [Row; 20] = [
    row(Change::Flip, "flip", 0.5, [0.0, 1.0]),
    row(Change::VerticalFlip, "vertical-flip", 0.5, [0.0, 1.0]),
    row(Change::AlternateFlip, "alternate-flip", 1.0, [1.0, PIXELS]),
    row(Change::Crop, "crop", 4.0, [0.0, PIXELS]),
    row(Change::ResizedCrop, "resized-crop", 0.08, [0.001, 1.0]),
    row(Change::Rotate, "rotate", 15.0, [0.0, 180.0]),
    row(Change::Translate, "translate", 0.1, [0.0, 1.0]),
    row(Change::Scale, "scale", 0.1, [0.0, 0.95]),
    row(Change::Shear, "shear", 10.0, [0.0, 80.0]),
    row(Change::Perspective, "perspective", 0.3, [0.0, 0.9]),
    row(Change::Brightness, "brightness", 0.2, [0.0, 10.0]),
    row(Change::Contrast, "contrast", 0.2, [0.0, 10.0]),
    row(Change::Saturation, "saturation", 0.2, [0.0, 10.0]),
    row(Change::Hue, "hue", 0.1, [0.0, 0.5]),
    row(Change::Blur, "blur", 1.0, [0.1, 10.0]),
    row(Change::Noise, "noise", 8.0, [0.0, 255.0]),
    row(Change::Erase, "erase", 0.25, [0.0, 1.0]),
    row(Change::Cutout, "cutout", 8.0, [1.0, PIXELS]),
    row(Change::Mixup, "mixup", 0.2, [0.001, 100.0]),
    row(Change::CutMix, "cutmix", 1.0, [0.001, 100.0]),
];

const EDGES: [(&str, Outside); 3] =
    [("fill", Outside::Zeros), ("border", Outside::Border), ("reflect", Outside::Reflection)];

/// Short for others.
const PRESETS: [(&str, &str); 3] = [("none", ""), ("shift", "crop=1"), ("cifar", "crop=4,flip")];

impl Change {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.change == self).expect("the table has every change")
    }

    /// # Errors
    /// If `amount` is not in this change's range.
    pub(super) fn check(self, amount: f64) -> Result<()> {
        let Row { name, range: [low, high], whole, .. } = *self.row();
        if !(low..=high).contains(&amount) || (whole && amount.fract() != 0.0) {
            let kind = if whole { "a whole number" } else { "a number" };
            return Err(wrong(format!("{name}={amount} is not {kind} from {low} to {high}")));
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    /// Its name in a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

fn wrong(reason: impl fmt::Display) -> Error {
    Error::Config(format!("augmentation: {reason}"))
}

impl FromStr for Augment {
    type Err = Error;

    /// Of a list as in the [module](super).
    fn from_str(text: &str) -> Result<Self> {
        let (mut changes, mut edge, mut fill) = (Vec::new(), Outside::Zeros, 0);
        let parts = text.split(',').map(str::trim).flat_map(|part| preset(part).split(','));
        for part in parts.filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
            match (name, value) {
                ("edge", Some(value)) => {
                    let known = EDGES.iter().find(|(name, _)| *name == value);
                    edge = known.ok_or_else(|| wrong(format!("edge={value}: known are fill, border and reflect")))?.1;
                }
                ("fill", Some(value)) => {
                    fill = value.parse().map_err(|_| wrong(format!("fill={value} is no level from 0 to 255")))?;
                }
                _ => changes.extend(named(name, value)?),
            }
        }
        Ok(Self::new(&changes)?.with_edge(edge).with_fill(fill))
    }
}

/// What a preset stands for; anything else for itself.
fn preset(part: &str) -> &str {
    PRESETS.iter().find(|(name, _)| *name == part).map_or(part, |(_, parts)| parts)
}

/// The changes that `name=value` stands for.
fn named(name: &str, value: Option<&str>) -> Result<Vec<(Change, f64)>> {
    let color: &[&str] = &["brightness", "contrast", "saturation"];
    let wanted = |row: &&Row| row.name == name || (name == "color" && color.contains(&row.name));
    let amount = |row: &Row| match value {
        Some(value) => value.parse().map_err(|_| wrong(format!("{name}={value}: `{value}` is not a number"))),
        None => Ok(row.default),
    };
    let changes: Vec<_> =
        TABLE.iter().filter(wanted).map(|row| Ok((row.change, amount(row)?))).collect::<Result<_>>()?;
    if changes.is_empty() {
        let presets = PRESETS.iter().map(|(name, _)| *name);
        let known: Vec<_> = TABLE.iter().map(|row| row.name).chain(["color", "edge", "fill"]).chain(presets).collect();
        return Err(wrong(format!("unknown `{name}`; known are {}", known.join(", "))));
    }
    Ok(changes)
}

impl fmt::Display for Augment {
    /// The list, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.pad("none");
        }
        let mut parts: Vec<String> = self.changes.iter().map(|(change, amount)| format!("{change}={amount}")).collect();
        if self.edge != Outside::Zeros {
            let name = EDGES.iter().find(|(_, edge)| *edge == self.edge).map_or("", |(name, _)| *name);
            parts.push(format!("edge={name}"));
        }
        if self.fill != 0 {
            parts.push(format!("fill={}", self.fill));
        }
        f.pad(&parts.join(","))
    }
}

impl Serialize for Augment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Augment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let every: Vec<String> =
            TABLE.iter().filter(|row| row.change != Change::Cutout).map(|row| row.name.into()).collect();
        let texts = [every.join(","), "cutout=3,edge=reflect,fill=128".into(), "cifar, hue".into(), String::new()];
        for text in texts {
            let augment: Augment = text.parse().expect("it is in the table");
            assert_eq!(augment.to_string().parse::<Augment>().expect("it was written"), augment);
            let json = serde_json::to_string(&augment).expect("a string");
            assert_eq!(serde_json::from_str::<Augment>(&json).expect("it was written"), augment);
        }
        let of = |text: &str| text.parse::<Augment>().expect("good text").to_string();
        assert_eq!(of("none"), "none");
        assert_eq!(of("shift"), "crop=1");
        assert_eq!(of("color=0.4"), "brightness=0.4,contrast=0.4,saturation=0.4");
    }

    #[cfg(feature = "cli")]
    #[test]
    fn the_help_names_every_change() {
        let command = <crate::train::Config as clap::Args>::augment_args(clap::Command::new("brasa"));
        let flag = command.get_arguments().find(|arg| arg.get_id() == "augment").expect("a flag");
        let help = flag.get_long_help().expect("it has one").to_string();
        for name in TABLE.iter().map(|row| row.name).chain(["color"]) {
            assert!(help.contains(&format!(" {name}")), "`{name}` is missing in: {help}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let cases = [
            ("spin", "unknown `spin`"),
            ("flip=2", "flip=2 is not a number from 0 to 1"),
            ("flip=NaN", "flip=NaN is not"),
            ("crop=1.5", "crop=1.5 is not a whole number"),
            ("crop=x", "`x` is not a number"),
            ("crop,crop=2", "only one of crop and crop"),
            ("color,contrast=1", "only one of contrast and contrast"),
            ("erase,cutout", "only one of erase and cutout"),
            ("edge=wrap", "known are fill, border and reflect"),
            ("fill=300", "fill=300"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Augment>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
