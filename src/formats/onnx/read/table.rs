//! The operators: one row for each, in the file of its family.

use super::call::{Call, Outputs};
use super::{
    activation, attention, contract, conv, detection, elementwise, generate, index, loss, movement, norm, pool,
    quantized, recurrent, reduce, requantized, resize, slice, spectral,
};

/// Of ONNX itself.
pub(super) const ONNX: &str = "";
/// Of ONNX Runtime's additions.
pub(super) const MICROSOFT: &str = "com.microsoft";

/// An operator.
pub(super) struct Operator {
    pub(super) name: &'static str,
    pub(super) domain: &'static str,
    /// The version of its domain's operators since which it exists, or has the meaning that it has here.
    pub(super) since: i64,
    pub(super) function: Function,
}

/// How an operator is evaluated.
pub(super) enum Function {
    Of(fn(&Call<'_>) -> Outputs),
    /// One of two graphs.
    If,
}

pub(super) const fn op(name: &'static str, since: i64, function: fn(&Call<'_>) -> Outputs) -> Operator {
    Operator { name, domain: ONNX, since, function: Function::Of(function) }
}

pub(super) const fn microsoft(name: &'static str, function: fn(&Call<'_>) -> Outputs) -> Operator {
    Operator { name, domain: MICROSOFT, since: 1, function: Function::Of(function) }
}

static CONTROL: [Operator; 1] = [Operator { name: "If", domain: ONNX, since: 1, function: Function::If }];

static FAMILIES: [&[Operator]; 20] = [
    &CONTROL,
    elementwise::OPERATORS,
    activation::OPERATORS,
    generate::OPERATORS,
    movement::OPERATORS,
    slice::OPERATORS,
    index::OPERATORS,
    reduce::OPERATORS,
    contract::OPERATORS,
    conv::OPERATORS,
    pool::OPERATORS,
    norm::OPERATORS,
    resize::OPERATORS,
    attention::OPERATORS,
    recurrent::OPERATORS,
    quantized::OPERATORS,
    requantized::OPERATORS,
    loss::OPERATORS,
    detection::OPERATORS,
    spectral::OPERATORS,
];

fn all() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The operator of this name, if there is one.
pub(super) fn operator(domain: &str, name: &str) -> Option<&'static Operator> {
    all().find(|operator| operator.name == name && operator.domain == domain)
}

/// The operators that a [`Model`](super::Model) may consist of, in alphabetical order, as `Conv` or
/// `com.microsoft.FastGelu`.
///
/// ```
/// let names = brasa::formats::onnx::supported_operators();
/// assert!(names.contains(&"Conv".to_owned()) && names.len() > 150);
/// ```
pub fn supported_operators() -> Vec<String> {
    let name = |operator: &Operator| match operator.domain {
        ONNX => operator.name.to_owned(),
        domain => format!("{domain}.{}", operator.name),
    };
    let mut names: Vec<String> = all().map(name).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_operator_has_one_row() {
        let names = super::supported_operators();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }
}
