//! Which curves belong into one chart.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::Recording;

/// Curves of one chart: the same number of training and of validation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Family {
    pub(super) name: String,
    /// Tags with what tells them apart (`train`, `validation`, `test`), which is empty if there is only one.
    pub(super) tags: Vec<(String, &'static str)>,
}

/// What people look at first, in this order; the rest follows by name.
const FIRST: [&str; 7] =
    ["loss", "accuracy", "r2", "learning_rate", "gradient_norm", "samples_per_second", "memory_bytes"];

/// The charts for the curves of these runs whose names contain `filter`.
pub(super) fn families(runs: &[&Recording], filter: &str) -> Vec<Family> {
    // runs have the same tags, most of them
    let tags: BTreeSet<&str> = runs.iter().flat_map(|run| run.series.keys()).map(String::as_str).collect();
    of_tags(tags.into_iter(), filter)
}

/// Whether a chart is one of those that people look at first.
pub(super) fn is_first(name: &str) -> bool {
    FIRST.contains(&name)
}

fn of_tags<'a>(tags: impl Iterator<Item = &'a str>, filter: &str) -> Vec<Family> {
    let filter = filter.to_lowercase();
    let mut families: BTreeMap<(usize, String), Vec<(String, &'static str)>> = BTreeMap::new();
    for tag in tags.filter(|tag| tag.to_lowercase().contains(filter.trim())) {
        let (name, part) = split(tag);
        let rank = FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
        let entry = families.entry((rank, name)).or_default();
        if !entry.iter().any(|(known, _)| known == tag) {
            entry.push((tag.to_owned(), part));
            entry.sort_by_key(|(_, part)| *part != "train");
        }
    }
    families.into_iter().map(|((_, name), tags)| Family { name, tags }).collect()
}

/// Whether a part of a family is not trained on.
pub(super) fn is_held_out(part: &str) -> bool {
    matches!(part, "test" | "validation")
}

/// `loss/train` is the training part of `loss`; so are TensorBoard's and Keras' spellings.
fn split(tag: &str) -> (String, &'static str) {
    // the words that are looked for are
    if !tag.is_ascii() {
        return (tag.to_owned(), "");
    }
    let lower = tag.to_lowercase();
    let parts: [(_, &[&str]); 3] =
        [("train", &["train", "training"]), ("test", &["test"]), ("validation", &["val", "valid", "validation"])];
    for (part, spellings) in parts {
        for spelling in spellings {
            for edge in [format!("/{spelling}"), format!("_{spelling}")] {
                if let Some(name) = lower.strip_suffix(&edge) {
                    return (tag[..name.len()].to_owned(), part);
                }
            }
            for edge in [format!("{spelling}/"), format!("{spelling}_")] {
                let name = &tag[edge.len().min(tag.len())..];
                // `test/mean_iou` is not part of anything that is measured in training
                if lower.starts_with(&edge)
                    && matches!(name.to_lowercase().as_str(), "loss" | "accuracy" | "acc" | "r2")
                {
                    return (name.to_owned(), part);
                }
            }
        }
    }
    (tag.to_owned(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_and_validation_stand_together() {
        let tags = ["accuracy/test", "loss/train", "learning_rate", "loss/test", "zebra", "val_loss", "test/mean_iou"];
        let found = of_tags(tags.into_iter(), "");
        let names: Vec<_> = found.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, ["loss", "accuracy", "learning_rate", "test/mean_iou", "zebra"]);
        let parts: Vec<_> = found[0].tags.iter().map(|(tag, part)| (tag.as_str(), *part)).collect();
        assert_eq!(parts, [("loss/train", "train"), ("loss/test", "test"), ("val_loss", "validation")]);
        assert_eq!(of_tags(tags.into_iter(), "Mean").len(), 1);
    }

    #[test]
    fn odd_names_are_left_whole() {
        for tag in ["", "train", "/", "тест/loss", "val_", "_train"] {
            let found = of_tags([tag].into_iter(), "");
            assert_eq!(found.len(), 1, "{tag}");
        }
    }
}
