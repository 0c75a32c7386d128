//! Layers with weights.

use brasa::Tensor;
use brasa::nn::{
    AttentionMasks, CosineSimilarity, MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d, MaxUnpool2d, MaxUnpool3d, Module,
    PairwiseDistance,
};

use super::super::draw::Draw;
use super::super::layers::Layers;
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
        layer("Bilinear", |d, layers| vec![layers.bilinear.forward(&d.shaped(&[2, 5]), &d.shaped(&[2, 6]))]),
        layer("Embedding", |d, layers| vec![layers.embedding.forward(&d.index(7, &[2, 3]))]),
        layer("EmbeddingBag", |d, layers| vec![layers.bag.forward(&d.index(7, &[2, 3]))]),
        layer("EmbeddingBag with offsets", |d, layers| {
            let count = d.between(1, 6);
            let index = d.index(7, &[count]);
            let offsets = Tensor::arange(2, index.device()) * d.between(0, count) as i64;
            vec![layers.bag.with_offsets(&index, &offsets, None)]
        }),
        layer("TransformerDecoder, TransformerDecoderLayer", |d, layers| {
            let (input, memory) = (sequence(d, 6), d.shaped(&[2, 3, 6]));
            let input = input.narrow(0, 0, 1);
            let none = AttentionMasks::default();
            vec![layers.decoder.forward(&input, &memory.narrow(0, 0, 1), none, none)]
        }),
        layer("Transformer", |d, layers| {
            let (source, target) = (d.shaped(&[2, 3, 6]), d.shaped(&[2, 2, 6]));
            vec![layers.transformer.forward(&source, &target, [AttentionMasks::default(); 3])]
        }),
        layer("MaxUnpool1d, MaxUnpool2d, MaxUnpool3d", |d, _| {
            let x = d.shaped(&[1, 2, 2, 4, 3]);
            let (three, indices) = MaxPool3d::new([1, 2, 1]).forward_with_indices(&x);
            let mut values = vec![MaxUnpool3d::new([1, 2, 1]).forward(&three, &indices)];
            let x = x.select(2, 0);
            let (two, indices) = MaxPool2d::new(2).forward_with_indices(&x);
            values.push(MaxUnpool2d::new(2).forward_to(&two, &indices, [4, 3]));
            let (one, indices) = MaxPool1d::new(2).forward_with_indices(&x.select(3, 0));
            values.push(MaxUnpool1d::new(2).forward(&one, &indices));
            values
        }),
        layer("CosineSimilarity, PairwiseDistance", |d, _| {
            let (x, y) = (d.shaped(&[2, 3]), d.shaped(&[2, 3]));
            let similarity = CosineSimilarity { epsilon: 0.1, ..CosineSimilarity::default() };
            vec![similarity.forward(&x, &y), PairwiseDistance::default().forward(&(&x - 8.0), &y)]
        }),
        layer("one input", |d, layers| {
            let made = &layers.made[d.number(layers.made.len())];
            let input = d.within(made.range.0, made.range.1, made.shape);
            vec![made.module.forward(&input)]
        }),
    ]
}
