//! What reads and writes variables.

use brasa::nn::Module;

use super::super::draw::fit;
use super::{Row, row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("assign", |d| {
            let Some(state) = d.state() else { return Vec::new() };
            let buffer = &state.buffers[d.number(state.buffers.len())];
            let value = d.solid();
            buffer.assign(&fit(&value, buffer.shape().dims()));
            // what is read from now on
            vec![buffer.tensor()]
        }),
        row("moving_average", |d| {
            let Some(state) = d.state() else { return Vec::new() };
            let buffer = &state.buffers[d.number(state.buffers.len())];
            let value = d.shaped(buffer.shape().dims());
            let old = buffer.tensor();
            buffer.assign(&(&old * 0.9 + value * 0.1));
            vec![old]
        }),
        row("transposed_into_itself", |d| {
            let Some(state) = d.state() else { return Vec::new() };
            // every element is read after another one was to be written
            let buffer = &state.buffers[d.number(state.buffers.len())];
            let value = buffer.tensor();
            let turned = fit(&value.t(), buffer.shape().dims());
            buffer.assign(&(turned * 0.5 + &value));
            vec![value]
        }),
        row("running_statistics", |d| {
            let Some(state) = d.state() else { return Vec::new() };
            let [batch, size] = [d.between(2, 4), d.between(1, 4)];
            vec![state.norm.forward(&d.shaped(&[batch, 3, size]))]
        }),
    ]
}
