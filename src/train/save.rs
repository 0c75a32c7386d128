//! When checkpoints are written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};

/// A checkpoint after an epoch is due if the last one is older than this.
const AFTER_EPOCH: Duration = Duration::from_secs(10);

/// How often a run is saved within an epoch: `500` steps, `30s`, `10min`, `2h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaveEvery {
    /// After so many steps.
    Steps(u64),
    /// When the last time was so long ago.
    Time(Duration),
}

impl Default for SaveEvery {
    /// 10 minutes.
    fn default() -> Self {
        Self::Time(Duration::from_secs(600))
    }
}

impl SaveEvery {
    /// True if it is due within an epoch, `steps` steps and `time` after the last one.
    pub(super) fn is_due(self, steps: u64, time: Duration) -> bool {
        match self {
            Self::Steps(every) => steps >= every,
            Self::Time(every) => time >= every,
        }
    }

    /// True if it is due after an epoch, `time` after the last one.
    pub(super) fn is_due_after_epoch(self, time: Duration) -> bool {
        matches!(self, Self::Time(_)) && time >= AFTER_EPOCH
    }
}

const UNITS: [(&str, u64); 4] = [("h", 3600), ("min", 60), ("s", 1), ("", 0)];

impl FromStr for SaveEvery {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::Config(format!("save-every is `{text}`: write a number of steps, or a time as 30s, 10min or 2h"));
        let (number, seconds) = UNITS
            .iter()
            .find_map(|(unit, seconds)| Some((text.trim().strip_suffix(unit)?, *seconds)))
            .ok_or_else(wrong)?;
        let number: u64 = number.trim().parse().map_err(|_| wrong())?;
        // longer than any run, and within the clock's range
        if number == 0 || number > 1 << 32 {
            return Err(wrong());
        }
        Ok(if seconds == 0 { Self::Steps(number) } else { Self::Time(Duration::from_secs(number * seconds)) })
    }
}

impl fmt::Display for SaveEvery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(steps) => write!(f, "{steps}"),
            Self::Time(time) => {
                let whole = |(_, seconds): &&(&str, u64)| *seconds > 0 && time.as_secs().is_multiple_of(*seconds);
                let (unit, seconds) = UNITS.iter().find(whole).expect("seconds are whole");
                write!(f, "{}{unit}", time.as_secs() / seconds)
            }
        }
    }
}

impl serde::Serialize for SaveEvery {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SaveEvery {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

/// What stands in a file: the words of a flag, or a number of steps without quotes.
struct Words;

impl serde::de::Visitor<'_> for Words {
    type Value = SaveEvery;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of steps, or a time as \"30s\", \"10min\" or \"2h\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<SaveEvery, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, steps: u64) -> std::result::Result<SaveEvery, E> {
        self.visit_str(&steps.to_string())
    }

    /// TOML has no other integers.
    fn visit_i64<E: serde::de::Error>(self, steps: i64) -> std::result::Result<SaveEvery, E> {
        self.visit_str(&steps.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::train::Config;

    #[test]
    fn steps_and_times_round_trip() {
        for text in ["500", "30s", "10min", "2h", "90min"] {
            assert_eq!(text.parse::<SaveEvery>().expect("good").to_string(), text);
        }
        assert_eq!("120s".parse::<SaveEvery>().expect("good").to_string(), "2min");
        for text in ["", "0", "min", "-3", "5d", "99999999999999999999"] {
            assert!(text.parse::<SaveEvery>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_may_have_steps_as_a_number() {
        let parse = |value: &str| {
            let text = format!("save-every = {value}");
            Config::parse(Path::new("run.toml"), &text)
                .map(|config| config.save_every)
                .map_err(|error| error.to_string())
        };
        let steps = Ok(SaveEvery::Steps(500));
        assert_eq!([parse("500"), parse("'500'")], [steps.clone(), steps]);
        assert_eq!(parse("'30s'"), Ok(SaveEvery::Time(Duration::from_secs(30))));
        for (value, words) in [
            ("0", "save-every is `0`: write a number of steps"),
            ("-3", "save-every is `-3`: write"),
            ("2.5", "expected a number of steps, or a time as \"30s\""),
            ("true", "expected a number of steps"),
        ] {
            let message = parse(value).expect_err(value);
            assert!(message.contains(words) && message.contains("line 1"), "{message}");
        }
        assert_eq!(serde_json::from_str::<SaveEvery>("500").expect("steps"), SaveEvery::Steps(500));
    }
}
