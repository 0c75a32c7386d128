//! Layers with weights.

use brasa::Tensor;
use brasa::nn::Module;

use super::super::draw::Draw;
use super::super::state::Layers;
use super::{Needs, Row};

/// An op of a layer.
fn layer(name: &'static str, apply: fn(&mut Draw, &Layers) -> Vec<Tensor>) -> Row {
    Row { name, needs: Needs::Layers(apply) }
}

/// `[batch, time, features]`
fn sequence(d: &mut Draw, features: usize) -> Tensor {
    let [batch, time] = [d.between(1, 2), d.between(1, 4)];
    d.shaped(&[batch, time, features])
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        layer("LSTM", |d, layers| {
            let (output, (hidden, cell)) = layers.lstm.run(&sequence(d, 5), None);
            vec![hidden, cell, output]
        }),
        layer("GRU", |d, layers| {
            let (output, hidden) = layers.gru.run(&sequence(d, 5), None);
            vec![hidden, output]
        }),
        layer("RNN", |d, layers| {
            let (output, hidden) = layers.rnn.run(&sequence(d, 5), None);
            vec![hidden, output]
        }),
        layer("LSTMCell", |d, layers| {
            let (input, hidden, cell) = (d.shaped(&[2, 5]), d.shaped(&[2, 3]), d.shaped(&[2, 3]));
            let (hidden, cell) = layers.cell.step(&input, (&hidden, &cell));
            vec![hidden, cell]
        }),
        layer("MultiheadAttention", |d, layers| vec![layers.attention.forward(&sequence(d, 6))]),
        layer("TransformerEncoderLayer", |d, layers| vec![layers.encoder.forward(&sequence(d, 6))]),
        layer("Bilinear", |d, layers| vec![layers.bilinear.forward(&d.shaped(&[2, 5]), &d.shaped(&[2, 6]))]),
        layer("EmbeddingBag", |d, layers| vec![layers.bag.forward(&d.index(7, &[2, 3]))]),
    ]
}
