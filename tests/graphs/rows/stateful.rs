//! What reads and writes variables.

use brasa::Tensor;
use brasa::nn::Module;

use super::super::draw::{Draw, fit};
use super::super::state::State;
use super::{Needs, Row};

/// An op that draws what it needs beside variables.
fn stateful(name: &'static str, apply: fn(&mut Draw, &State) -> Vec<Tensor>) -> Row {
    Row { name, needs: Needs::Variables(apply) }
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        stateful("assign", |d, state| {
            let buffer = &state.buffers[d.number(state.buffers.len())];
            let value = d.solid();
            buffer.assign(&fit(&value, buffer.shape().dims()));
            // what is read from now on
            vec![buffer.tensor()]
        }),
        stateful("moving_average", |d, state| {
            let buffer = &state.buffers[d.number(state.buffers.len())];
            let value = d.shaped(buffer.shape().dims());
            let old = buffer.tensor();
            buffer.assign(&(&old * 0.9 + value * 0.1));
            vec![old]
        }),
        stateful("transposed_into_itself", |_, state| {
            // every element of the matrix is read after another one was to be written
            let [matrix, _] = state.buffers.as_slice() else { return Vec::new() };
            let value = matrix.tensor();
            matrix.assign(&(fit(&value.t(), matrix.shape().dims()) * 0.5 + &value));
            vec![value]
        }),
        stateful("running_statistics", |d, state| {
            let [batch, size] = [d.between(2, 4), d.between(1, 4)];
            vec![state.norm.forward(&d.shaped(&[batch, 3, size]))]
        }),
    ]
}
