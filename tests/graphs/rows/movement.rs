//! The same elements elsewhere.

use brasa::Tensor;
use brasa::tensor::PadMode;

use super::super::draw::{Draw, fit};
use super::{Row, one, row};

/// Any value, with one axis or more.
fn with_axes(d: &mut Draw) -> Tensor {
    let value = d.any();
    if value.rank() == 0 { value.unsqueeze(0) } else { value }
}

pub(super) fn rows() -> Vec<Row> {
    [shapes(), slices(), copies(), matrices()].into_iter().flatten().collect()
}

fn shapes() -> Vec<Row> {
    vec![
        one!("reshape_flat", |d| {
            let x = d.any();
            x.reshape([x.numel()])
        }),
        one!("reshape_split", |d| {
            let x = d.any();
            let count = x.numel();
            match d.of(&[2, 3, 5, 7]) {
                part if count > 0 && count % part == 0 && d.flag() => x.reshape([part, count / part]),
                part if count > 0 && count % part == 0 => x.reshape([(count / part) as isize, 1, -1]),
                _ => x.reshape([1, count]),
            }
        }),
        one!("flatten", |d| {
            let x = with_axes(d);
            let start = d.number(x.rank());
            let end = d.between(start, x.rank() - 1);
            x.flatten(start.cast_signed(), end.cast_signed())
        }),
        one!("unflatten", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let size = x.size(axis);
            let part = d.of(&[2, 3, 1]);
            if x.rank() < 8 && size > 0 && size.is_multiple_of(part) {
                x.unflatten(axis, [part as isize, -1])
            } else {
                x
            }
        }),
        one!("permute", |d| {
            let x = d.any();
            let order = d.order(&x);
            x.permute(order)
        }),
        one!("transpose", |d| {
            let x = with_axes(d);
            let (first, second) = (d.axis(&x), d.axis(&x));
            x.transpose(first, second)
        }),
        one!("movedim", |d| {
            let x = with_axes(d);
            let (from, to) = (d.axis(&x), d.axis(&x));
            x.movedim(from, to)
        }),
        one!("t", |d| d.ranked(0, 2).t()),
        one!("unsqueeze", |d| {
            let x = d.any();
            let axis = d.number(x.rank() + 1);
            if x.rank() < 8 { x.unsqueeze(axis.cast_signed()) } else { x }
        }),
        one!("squeeze", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            if x.size(axis) == 1 { x.squeeze(axis) } else { x.squeeze_all() }
        }),
        one!("expand", |d| {
            let x = d.any();
            let shape = x.shape().to_vec();
            let mut wide: Vec<usize> =
                shape.iter().map(|&size| if size == 1 { d.between(1, 4) } else { size }).collect();
            if wide.len() < 8 && d.flag() {
                wide.insert(0, d.between(1, 3));
            }
            x.expand(wide)
        }),
    ]
}

fn slices() -> Vec<Row> {
    vec![
        one!("narrow", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let size = x.size(axis);
            let start = d.number(size + 1);
            let length = d.number(size - start + 1);
            // empty ones are rare
            if length == 0 && size > start { x.narrow(axis, start, 1) } else { x.narrow(axis, start, length) }
        }),
        one!("slice", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let start = d.number(x.size(axis).min(3));
            x.slice(axis, start..)
        }),
        one!("slice_step", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let start = d.number(x.size(axis).min(3));
            let step = d.of(&[2, -1, 3, -2, 1]);
            x.slice_step(axis, start.., step)
        }),
        one!("select", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let size = x.size(axis);
            if size > 0 { x.select(axis, d.number(size)) } else { x }
        }),
        one!("slice_scatter", |d| {
            let x = d.ranked(1, 4);
            let axis = d.axis(&x);
            let start = d.number(x.size(axis).min(3));
            let part = x.slice(axis, start..);
            let values = d.shaped(part.shape());
            x.slice_scatter(axis, start.., values)
        }),
        one!("slice_step_scatter", |d| {
            let x = d.ranked(1, 4);
            let axis = d.axis(&x);
            let start = d.number(x.size(axis).min(3));
            let step = d.of(&[2, -1, 3, -2, 1]);
            let part = x.slice_step(axis, start.., step);
            let values = d.shaped(part.shape());
            x.slice_step_scatter(axis, start.., step, values)
        }),
        one!("select_scatter", |d| {
            let x = d.ranked(1, 4);
            let axis = d.axis(&x);
            let index = d.number(x.size(axis));
            let values = d.shaped(x.select(axis, index).shape());
            x.select_scatter(axis, index, values)
        }),
        one!("diagonal_scatter", |d| {
            let x = d.ranked(2, 4);
            let offset = d.number(5).cast_signed() - 2;
            let (first, second) = if d.flag() { (0, -1) } else { (-1, -2) };
            let diagonal = x.diagonal(offset, first, second);
            if diagonal.numel() == 0 {
                x.diagonal_scatter(offset, first, second, 0.5)
            } else {
                let values = d.shaped(diagonal.shape());
                x.diagonal_scatter(offset, first, second, values)
            }
        }),
        one!("flip", |d| {
            let x = with_axes(d);
            let axes = d.axes(&x);
            x.flip(axes)
        }),
        one!("roll", |d| {
            let x = with_axes(d);
            let axes = d.axes(&x);
            let shifts: Vec<isize> = axes.iter().map(|_| d.number(7).cast_signed() - 3).collect();
            x.roll(shifts, axes)
        }),
        row("split", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let size = d.between(1, 3);
            x.split(size, axis).into_iter().take(3).collect()
        }),
        row("split_sizes", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let first = d.number(x.size(axis) + 1);
            x.split_sizes(&[first, x.size(axis) - first], axis)
        }),
        row("chunk", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let count = d.between(1, 3);
            x.chunk(count, axis).into_iter().take(3).collect()
        }),
        row("unbind", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            x.unbind(axis).into_iter().take(3).collect()
        }),
    ]
}

fn copies() -> Vec<Row> {
    vec![
        one!("cat", |d| {
            let x = with_axes(d);
            let axis = d.axis(&x);
            let other = d.partner(&x);
            let other = if other.shape() == x.shape() { other } else { x.narrow(axis, 0, x.size(axis).min(2)) };
            Tensor::cat(&[&x, &other, &x.flip(axis)], axis)
        }),
        one!("stack", |d| {
            let x = d.solid();
            let y = d.shaped(x.shape().dims());
            let axis = d.number(x.rank() + 1).cast_signed();
            if x.rank() < 8 { Tensor::stack(&[&x, &y], axis) } else { x + y }
        }),
        // parts of one vector, computed and read in many ways
        one!("cat_of_many", |d| {
            let parts: Vec<Tensor> = (0..d.between(3, 6)).map(|_| d.ranked(1, 1)).collect();
            Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)
        }),
        one!("repeat", |d| {
            let x = d.any();
            let counts: Vec<usize> = (0..x.rank()).map(|_| d.between(1, 2)).collect();
            if counts.len() < 8 && d.flag() { x.repeat(&[&[2], counts.as_slice()].concat()) } else { x.repeat(&counts) }
        }),
        one!("tile", |d| {
            let x = d.any();
            let count = d.between(1, 3);
            x.tile(&[count])
        }),
        one!("repeat_interleave", |d| {
            let x = with_axes(d);
            let (count, axis) = (d.between(1, 3), d.axis(&x));
            x.repeat_interleave(count, axis)
        }),
        one!("pad", |d| {
            let x = d.float();
            let widths: Vec<(isize, isize)> = x
                .shape()
                .iter()
                .map(|&size| {
                    let before = d.number(4).cast_signed() - 1;
                    // what is cut off must be there
                    (before.max(-(size.min(1).cast_signed())), d.number(3).cast_signed())
                })
                .collect();
            x.pad(&widths, d.of(&[0.0, 0.5]))
        }),
        one!("pad_mode", |d| {
            let x = d.solid();
            let mode = d.of(&[PadMode::Reflect, PadMode::Replicate, PadMode::Circular]);
            let widths: Vec<(usize, usize)> = x
                .shape()
                .to_vec()
                .into_iter()
                .map(|size| {
                    let most = if matches!(mode, PadMode::Reflect) { size - 1 } else { size };
                    (d.number(most.min(2) + 1), d.number(most.min(2) + 1))
                })
                .collect();
            x.pad_mode(&widths, mode)
        }),
        row("meshgrid", |d| {
            let vectors = [d.ranked(1, 1), d.ranked(1, 1)];
            Tensor::meshgrid(&[&vectors[0], &vectors[1]])
        }),
    ]
}

fn matrices() -> Vec<Row> {
    vec![
        one!("rot90", |d| {
            let x = d.ranked(2, 4);
            let times = d.number(5).cast_signed() - 2;
            x.rot90(times, [-1, 0])
        }),
        one!("tril", |d| {
            let x = d.ranked(2, 4);
            x.tril(d.number(5) as i32 - 2)
        }),
        one!("triu", |d| {
            let x = d.ranked(2, 4);
            x.triu(d.number(5) as i32 - 2)
        }),
        one!("diagonal", |d| {
            let x = d.ranked(2, 4);
            let offset = d.number(3).cast_signed() - 1;
            let fits = x.size(0).min(x.size(-1)) > 1;
            x.diagonal(if fits { offset } else { 0 }, 0, -1)
        }),
        one!("diag", |d| {
            let x = d.ranked(1, 2);
            let offset = if x.rank() == 1 || x.size(0).min(x.size(1)) > 1 { d.number(3).cast_signed() - 1 } else { 0 };
            x.diag(offset)
        }),
        one!("diag_embed", |d| {
            let x = d.ranked(1, 3);
            x.diag_embed(d.number(3).cast_signed() - 1)
        }),
        one!("trace", |d| d.ranked(2, 2).trace()),
        one!("pixel_shuffle", |d| {
            let [batch, channels, height, width] =
                [d.between(1, 2), d.between(1, 2) * 4, d.between(1, 3), d.between(1, 4)];
            d.shaped(&[batch, channels, height, width]).pixel_shuffle(2)
        }),
        one!("pixel_unshuffle", |d| {
            let [channels, height, width] = [d.between(1, 2), d.between(1, 3) * 2, d.between(1, 3) * 2];
            d.shaped(&[channels, height, width]).pixel_unshuffle(2)
        }),
        one!("channel_shuffle", |d| {
            let [groups, each, size] = [d.between(1, 3), d.between(1, 3), d.between(1, 4)];
            d.shaped(&[2, groups * each, size]).channel_shuffle(groups)
        }),
        one!("eight_axes", |d| {
            let sizes = d.sizes(8, 2);
            let x = d.shaped(&sizes);
            let order = d.order(&x);
            let axes = d.axes(&x);
            x.permute(order).flip(axes)
        }),
        one!("reordered", |d| {
            // a view of a view of a view of what was computed
            let x = d.ranked(2, 2).tanh();
            let turned = x.t().slice_step(0, .., 2).flip(1).pad(&[(1, 0), (0, 1)], 0.0).t();
            fit(&turned, &[turned.numel()])
        }),
    ]
}
