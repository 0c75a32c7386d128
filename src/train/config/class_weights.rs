//! How much each class counts in the loss.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::data::{Description, Goal};
use crate::error::{Error, Result};

/// How much a sample of each class, or a pixel of a mask, counts in the loss; the mean is over the weights.
#[derive(Clone, PartialEq, Debug)]
pub enum ClassWeights {
    /// The rarer, the more, so that all classes count the same together: by one over the samples of the class, as
    /// scikit-learn's `class_weight="balanced"`. The training part is read once to count them, if its
    /// [description](Description::counts) does not tell; a class that no sample is of counts nothing.
    Balanced,
    /// These, in the order of the classes.
    Given(Vec<f32>),
}

impl ClassWeights {
    /// An error if these are no weights.
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Self::Given(weights) if !weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0) => {
                Err(Error::Config(format!("class-weights is {self}, but weights must be finite and not negative")))
            }
            Self::Given(weights) if weights.iter().all(|&weight| weight == 0.0) => {
                Err(Error::Config(format!("class-weights is {self}: no class counts; give one of them more than 0")))
            }
            _ => Ok(()),
        }
    }

    /// An error if they are none of these data's classes.
    pub(super) fn check_fits(&self, data: &Description) -> Result<()> {
        let (name, classes) = (&data.name, data.classes.len());
        match self {
            _ if data.goal == Goal::Regress => {
                Err(Error::Config(format!("class-weights are of classes, and `{name}` has numbers: omit it")))
            }
            Self::Given(weights) if weights.len() != classes => {
                let count = weights.len();
                Err(Error::Config(format!("class-weights has {count} numbers, and `{name}` has {classes} classes")))
            }
            _ => Ok(()),
        }
    }

    /// The weight of each class of data whose samples were counted. Their mean is 1: the loss does not depend on it, but
    /// sums of 16-bit floats would.
    pub(in crate::train) fn of(&self, data: &Description) -> Result<Vec<f32>> {
        let weights: Vec<f64> = match (self, &data.counts) {
            (Self::Given(weights), _) => weights.iter().map(|&weight| weight.into()).collect(),
            (Self::Balanced, Some(counts)) if counts.len() == data.classes.len() => {
                // one that no sample is of counts nothing
                counts.iter().map(|&count| if count == 0 { 0.0 } else { (count as f64).recip() }).collect()
            }
            (Self::Balanced, counts) => {
                let (name, classes) = (&data.name, data.classes.len());
                let told = counts.as_ref().map_or(0, Vec::len);
                return Err(Error::Config(format!(
                    "class-weights: `{name}` tells {told} counts for its {classes} classes"
                )));
            }
        };
        let sum: f64 = weights.iter().sum();
        if sum == 0.0 {
            return Err(Error::Config(format!("class-weights: no sample of `{}` is of any class", data.name)));
        }
        Ok(weights.iter().map(|weight| (weight * weights.len() as f64 / sum) as f32).collect())
    }
}

impl FromStr for ClassWeights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.trim() == "balanced" {
            return Ok(Self::Balanced);
        }
        let weights = text.split(',').map(|weight| weight.trim().parse());
        let weights = weights.collect::<Result<_, _>>().map_err(|_| {
            Error::Config(format!(
                "class-weights is `{text}`: write balanced, or a number for each class, such as 1,2.5"
            ))
        });
        weights.map(Self::Given)
    }
}

impl fmt::Display for ClassWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced => f.write_str("balanced"),
            Self::Given(weights) => {
                let weights: Vec<String> = weights.iter().map(f32::to_string).collect();
                f.write_str(&weights.join(","))
            }
        }
    }
}

impl Serialize for ClassWeights {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ClassWeights {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

/// What stands in a file: the words of a flag, or a list of numbers.
struct Words;

impl<'de> de::Visitor<'de> for Words {
    type Value = ClassWeights;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"balanced\", or a number for each class, such as [1, 2.5]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ClassWeights, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut numbers: A) -> Result<ClassWeights, A::Error> {
        let mut weights = Vec::new();
        while let Some(weight) = numbers.next_element()? {
            weights.push(weight);
        }
        Ok(ClassWeights::Given(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Config;

    fn data(counts: &[u64]) -> Description {
        let classes: Vec<String> = (0..counts.len()).map(|class| class.to_string()).collect();
        Description { counts: Some(counts.to_vec()), ..Description::new("some", Goal::Classify, classes, [4]) }
    }

    #[test]
    fn words_round_trip_and_others_are_refused() {
        for text in ["balanced", "1,2.5,0"] {
            assert_eq!(text.parse::<ClassWeights>().expect("weights").to_string(), text);
            let config = Config { class_weights: Some(text.parse().expect("weights")), ..Config::default() };
            let read = Config::parse(std::path::Path::new("run.toml"), &config.to_toml()).expect("own output");
            assert_eq!(read, config);
        }
        let read = Config::parse(std::path::Path::new("run.toml"), "class-weights = [1, 2.5]").expect("a list");
        assert_eq!(read.class_weights, Some(ClassWeights::Given(vec![1.0, 2.5])));
        let read = Config::parse(std::path::Path::new("run.toml"), "class-weights = 3").expect_err("a number");
        assert!(read.to_string().contains("balanced"), "{read}");
        for text in ["", "even", "1,,2", "1;2"] {
            assert!(text.parse::<ClassWeights>().expect_err("no weights").to_string().contains("balanced"), "{text}");
        }
        for text in ["1,-1", "NaN,1", "inf,1", "0,0"] {
            text.parse::<ClassWeights>().expect("numbers").check().expect_err("no weights");
        }
    }

    #[test]
    fn balanced_classes_count_the_same_together() {
        let weights = ClassWeights::Balanced.of(&data(&[30, 10, 0])).expect("they were counted");
        // one to three, with a mean of 1
        assert_eq!(weights, [0.75, 2.25, 0.0]);
        assert!(ClassWeights::Balanced.of(&data(&[0, 0])).is_err(), "nothing to learn from");
        assert!(ClassWeights::Balanced.of(&Description { counts: None, ..data(&[1, 2]) }).is_err());
        assert_eq!(ClassWeights::Given(vec![1.0, 7.0]).of(&data(&[1, 2])).expect("given"), [0.25, 1.75]);
    }

    #[test]
    fn weights_belong_to_as_many_classes() {
        let two = ClassWeights::Given(vec![1.0, 2.0]);
        two.check_fits(&data(&[1, 2])).expect("two classes");
        let message = two.check_fits(&data(&[1, 2, 3])).expect_err("three classes").to_string();
        assert!(message.contains("2 numbers") && message.contains("3 classes"), "{message}");
        let numbers = Description { goal: Goal::Regress, ..data(&[1, 2]) };
        assert!(ClassWeights::Balanced.check_fits(&numbers).is_err());
    }
}
