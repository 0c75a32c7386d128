//! From a case to the graph it stands for.

use brasa::autodiff::grad;
use brasa::{DType, Tensor};

use super::case::{Case, Ending};
use super::pool::Pool;
use super::state::State;

/// What a case computes.
pub(crate) struct Graph {
    /// The values that are asked for.
    pub(crate) outputs: Vec<Tensor>,
    /// The rows whose results went on, in order.
    pub(crate) drawn: Vec<&'static str>,
    /// Whether numbers were rounded to f16 on the way.
    pub(crate) half: bool,
}

/// No gradient is larger: what differs then are the last digits of numbers that nobody wants.
pub(crate) const LARGEST_GRADIENT: f64 = 1e6;

/// Builds the graph of `case` from its inputs (of the types and shapes of [`Case::inputs`]) with their values. What it
/// assigns to `state` is up to whoever traces it.
pub(crate) fn build(case: &Case, inputs: &[(Tensor, Vec<f64>)], state: Option<&State>) -> Graph {
    let mut pool = Pool::new(inputs, state);
    for choice in &case.choices {
        pool.apply(choice);
    }
    let mut outputs = pool.sinks();
    let floats: Vec<Tensor> = outputs.iter().filter(|output| output.dtype() == DType::F32).cloned().collect();
    let terms = floats.iter().enumerate().map(|(number, float)| (float * (1.0 / (number + 1) as f64)).sum());
    let Some(loss) = terms.reduce(|a, b| a + b) else { return pool.into_graph(outputs) };
    let wrt: Vec<&Tensor> = inputs.iter().map(|(input, _)| input).filter(|input| input.dtype() == DType::F32).collect();
    match case.ending {
        Ending::Values => {}
        Ending::Gradients => outputs.extend(grad(&loss, &wrt).into_iter().filter(|gradient| pool.is_tame(gradient))),
        Ending::SecondDerivatives => {
            let first: Vec<Tensor> = grad(&loss, &wrt).into_iter().filter(|gradient| pool.is_tame(gradient)).collect();
            let sum = first.iter().map(|gradient| (gradient * 0.5).sin().sum()).reduce(|a, b| a + b);
            let second = sum.map(|sum| grad(&sum, &wrt)).unwrap_or_default();
            outputs.extend(second.into_iter().filter(|gradient| pool.is_tame(gradient)));
            outputs.extend(first);
        }
        Ending::Update => {
            let state = state.expect("a case that updates has state");
            state.update(&loss);
            outputs.push(loss);
        }
    }
    pool.into_graph(outputs)
}
