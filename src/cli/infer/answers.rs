//! How answers are told.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::train::{Prediction, Predictor};

use super::super::report::{digits, percent};

/// What was said about an input.
pub(super) struct Answer {
    pub(super) said: Prediction,
    /// Height and width of the picture.
    pub(super) size: [usize; 2],
    /// Where its mask was written, or why it was not.
    pub(super) mask: Option<Result<PathBuf>>,
}

impl Answer {
    fn written(&self) -> Option<&Path> {
        self.mask.as_ref()?.as_deref().ok()
    }
}

/// Likeliest classes that are told unless somebody says how many.
const LIKELIEST: usize = 3;

/// Classes with their probabilities, or with their shares of the pixels, the largest first.
struct Part<'a> {
    class: &'a str,
    share: f64,
}

/// A line for people.
pub(super) fn line(name: &str, answer: &Answer, predictor: &Predictor, top: Option<usize>) -> String {
    if predictor.input().regresses {
        let said = answer.said.numbers.iter().map(|&number| digits(number.into()));
        let numbers: Vec<String> =
            predictor.classes().iter().zip(said).map(|(name, number)| format!("{name} {number}")).collect();
        return format!("{name}: {}\n", numbers.join(", "));
    }
    let parts = parts(&answer.said, predictor.classes(), top);
    let parts: Vec<String> = parts.iter().map(|part| format!("{} {}", part.class, percent(part.share))).collect();
    let mask = answer.written().map(|mask| format!(" -> {}", mask.display())).unwrap_or_default();
    format!("{name}: {}{mask}\n", parts.join(", "))
}

/// A JSON object in a line.
pub(super) fn object(name: &str, answer: &Answer, predictor: &Predictor, top: Option<usize>) -> String {
    if predictor.input().regresses {
        let numbers = predictor.classes().iter().cloned().zip(answer.said.numbers.iter().map(|&number| json!(number)));
        let numbers: serde_json::Map<String, Value> = numbers.collect();
        return json!({ "input": name, "numbers": numbers }).to_string() + "\n";
    }
    let parts = parts(&answer.said, predictor.classes(), top);
    let list = |measure: &str| -> Vec<Value> {
        parts.iter().map(|part| json!({ "class": part.class, measure: part.share })).collect()
    };
    let object = if answer.said.mask.is_empty() {
        let (class, probability) = (parts[0].class, parts[0].share);
        json!({ "input": name, "class": class, "probability": probability, "likeliest": list("probability") })
    } else {
        let mask = answer.written().map(|mask| mask.display().to_string());
        let [height, width] = answer.size;
        let mut object =
            json!({ "input": name, "height": height, "width": width, "pixels": list("share"), "mask": mask });
        if let Some(Err(error)) = &answer.mask {
            object["error"] = error.to_string().into();
        }
        object
    };
    object.to_string() + "\n"
}

/// The same of an input that has no answer.
pub(super) fn failure(name: &str, error: &Error) -> String {
    json!({ "input": name, "error": error.to_string() }).to_string() + "\n"
}

fn parts<'a>(said: &Prediction, classes: &'a [String], top: Option<usize>) -> Vec<Part<'a>> {
    if said.mask.is_empty() {
        let of = |&(class, probability): &(u32, f32)| Part {
            class: &classes[class as usize],
            share: f64::from(probability),
        };
        return said.likeliest.iter().take(top.unwrap_or(LIKELIEST)).map(of).collect();
    }
    let mut counts = vec![0_usize; classes.len()];
    said.mask.iter().for_each(|&class| counts[usize::from(class)] += 1);
    let share = |count: usize| count as f64 / said.mask.len() as f64;
    let mut parts: Vec<Part<'_>> =
        classes.iter().zip(counts).map(|(class, count)| Part { class, share: share(count) }).collect();
    // of equal ones the first
    parts.sort_by(|a, b| b.share.total_cmp(&a.share));
    parts.retain(|part| part.share > 0.0);
    parts.truncate(top.unwrap_or(usize::MAX));
    parts
}
