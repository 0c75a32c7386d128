//! What a program's own model must be like to be trained.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::models::{ModelSpec, Task};
use crate::nn::{Module, repeated_name, summary};
use crate::shape::Shape;

use super::super::config::ModelName;

/// As many samples as the model is tried with.
const SAMPLES: usize = 2;

/// Refuses a model that cannot be trained on data such as `spec` says: without parameters, with two variables of one
/// name, or with results of another shape.
pub(super) fn check(name: ModelName, model: &dyn Module, spec: &ModelSpec) -> Result<()> {
    let refused = |why: String| Err(Error::Config(format!("model `{name}`: {why}")));
    if model.parameters().is_empty() {
        return refused("it has no parameters: `visit` hands on to each layer's".to_owned());
    }
    if let Some(twice) = repeated_name(model) {
        return refused(format!("two variables are called `{twice}`: give each layer its place, `init.at(name)`"));
    }
    let input = Shape::from([&[SAMPLES], &spec.input[..]].concat());
    let places = if name.entry().task == Task::Segment { &spec.input[1..] } else { &[] };
    let expected = Shape::from([&[SAMPLES, spec.classes], places].concat());
    let got = summary(model, &input, DType::F32)?.output;
    if got == expected {
        return Ok(());
    }
    refused(format!(
        "of samples {input} it makes {got} instead of {expected}, a number for each class, or each to predict"
    ))
}
