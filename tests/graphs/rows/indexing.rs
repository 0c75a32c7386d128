//! Places that are data.

use brasa::Tensor;
use brasa::tensor::ScatterOp;

use super::super::draw::Draw;
use super::{Row, one};

/// An f32 value with axes, the places of some elements along the first one (with every other axis whole), and a source
/// of the index's shape.
fn scattered(d: &mut Draw) -> [Tensor; 3] {
    let x = d.ranked(1, 3);
    let count = d.between(1, 5);
    let mut shape = x.shape().to_vec();
    shape[0] = count;
    let index = d.index(x.size(0), &shape);
    let source = d.shaped(&shape);
    [x, index, source]
}

/// An f32 value, one of its axes, the places of a few slices along it, and values for these.
fn sliced(d: &mut Draw) -> (Tensor, isize, Tensor, Tensor) {
    let x = d.ranked(1, 3);
    let axis = d.number(x.rank());
    let mut shape = x.shape().to_vec();
    shape[axis] = d.between(1, 5);
    let index = d.index(x.shape()[axis], &[shape[axis]]);
    let source = d.shaped(&shape);
    (x, axis.cast_signed(), index, source)
}

/// Rows that scatter along the first axis.
macro_rules! scatter {
    ($($name:literal: |$x:ident, $index:ident, $source:ident, $flag:ident| $body:expr),* $(,)?) => {
        [$(one!($name, |d| {
            let [$x, $index, $source] = &scattered(d);
            let $flag = d.flag();
            $body
        })),*]
    };
}

pub(super) fn rows() -> Vec<Row> {
    let scatters = scatter![
        "scatter": |x, index, source, _flag| x.scatter(0, index, source),
        "scatter_number": |x, index, _source, _flag| x.scatter(0, index, 0.5),
        "scatter_add": |x, index, source, _flag| x.scatter_add(0, index, source),
        "scatter_mean": |x, index, source, own| x.scatter_reduce(0, index, source, ScatterOp::Mean, own),
        "scatter_sum": |x, index, source, own| x.scatter_reduce(0, index, source, ScatterOp::Sum, own),
        "scatter_max": |x, index, source, own| x.scatter_reduce(0, index, source, ScatterOp::Max, own),
        "scatter_min": |x, index, source, own| x.scatter_reduce(0, index, source, ScatterOp::Min, own),
        "scatter_prod": |x, index, source, own| {
            (x * 0.2).scatter_reduce(0, index, &(source * 0.2 + 1.0), ScatterOp::Prod, own)
        },
    ];
    scatters.into_iter().chain(others()).collect()
}

fn others() -> Vec<Row> {
    vec![
        one!("gather", |d| {
            let x = d.ranked(1, 4);
            let axis = d.number(x.rank());
            let mut shape = x.shape().to_vec();
            shape[axis] = d.between(1, 5);
            let index = d.index(x.shape()[axis], &shape);
            x.gather(axis.cast_signed(), &index)
        }),
        one!("take_along_dim", |d| {
            let x = d.ranked(1, 3);
            let axis = d.number(x.rank());
            let mut shape = vec![1; x.rank()];
            shape[axis] = d.between(1, 4);
            let index = d.index(x.shape()[axis], &shape);
            x.take_along_dim(&index, axis.cast_signed())
        }),
        one!("index_select", |d| {
            let x = d.ranked(1, 4);
            let axis = d.number(x.rank());
            let rank = d.number(3);
            let shape = d.sizes(rank, 3);
            let index = d.index(x.shape()[axis], &shape);
            x.index_select(axis.cast_signed(), &index)
        }),
        one!("integer_gather", |d| {
            let x = d.value(|value| !value.dtype().is_float() && value.numel() > 0);
            let x = x.reshape([x.numel()]);
            let index = d.index(x.numel(), &[5]);
            x.gather(0, &index)
        }),
        one!("embedding", |d| {
            let table = d.ranked(2, 2);
            let rank = d.between(1, 2);
            let shape = d.sizes(rank, 4);
            let index = d.index(table.size(0), &shape);
            table.embedding(&index)
        }),
        one!("one_hot", |d| {
            let rank = d.number(3);
            let shape = d.sizes(rank, 4);
            let classes = d.between(1, 5);
            d.index(classes, &shape).one_hot(classes)
        }),
        one!("masked_fill", |d| {
            let x = d.solid();
            let mask = d.truth(x.shape().dims());
            x.masked_fill(&mask, 0.25)
        }),
        one!("masked_scatter", |d| {
            let x = d.solid();
            let mask = d.truth(x.shape().dims());
            let more = d.number(3);
            let source = d.shaped(&[x.numel() + more]);
            x.masked_scatter(&mask, &source)
        }),
        one!("index_add", |d| {
            let (x, axis, index, source) = sliced(d);
            x.index_add(axis, &index, &source)
        }),
        one!("index_copy", |d| {
            let (x, axis, index, source) = sliced(d);
            x.index_copy(axis, &index, &source)
        }),
        one!("index_fill", |d| {
            let (x, axis, index, _) = sliced(d);
            x.index_fill(axis, &index, 0.75)
        }),
        one!("index_put", |d| {
            let x = d.ranked(2, 3);
            let (rows, columns) = (d.index(x.size(0), &[4]), d.index(x.size(1), &[4]));
            let values = d.shaped(&x.shape()[2..]);
            if d.flag() {
                x.index_put(&[&rows, &columns], &values, d.flag())
            } else {
                x.index_put(&[&rows], x.select(0, 0), d.flag())
            }
        }),
    ]
}
