//! The references of sorting and of reductions over segments; their gradients are rules of the methods built on them.

use crate::dtype::DType;
use crate::graph::ReduceOp;

use super::elementwise::binary_value;

/// All keys with every run of every row sorted, then their former places in the row.
pub(crate) fn sorted_runs(keys: &[f64], length: usize, run: usize) -> Vec<f64> {
    let places = (0..keys.len()).map(|element| (element % length) as f64);
    sort_pairs(keys.iter().copied().zip(places).collect(), length, run)
}

/// The same with runs twice as long; merging sorted runs is sorting them.
pub(crate) fn merged_runs(pairs: &[f64], length: usize, run: usize) -> Vec<f64> {
    let (keys, places) = pairs.split_at(pairs.len() / 2);
    sort_pairs(keys.iter().copied().zip(places.iter().copied()).collect(), length, run.saturating_mul(2))
}

fn sort_pairs(mut pairs: Vec<(f64, f64)>, length: usize, run: usize) -> Vec<f64> {
    for row in pairs.chunks_mut(length.max(1)) {
        for run in row.chunks_mut(run) {
            run.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    let (keys, places): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    [keys, places].concat()
}

/// For each query the number of elements of its row that come before it.
pub(crate) fn found((length, queries, right): (usize, usize, bool), inputs: &[&[f64]]) -> Vec<f64> {
    let find = |(number, &query): (usize, &f64)| {
        let row = &inputs[0][number / queries * length..][..length];
        row.partition_point(|&element| element < query || right && element == query) as f64
    };
    inputs[1].iter().enumerate().map(find).collect()
}

/// Rows of values reduced over segments. Inputs are (values, starts) and maybe sorted pairs, as
/// [`crate::graph::Op::Segments`] has them.
pub(crate) fn segments(
    (op, dtype): (ReduceOp, DType),
    (width, longest, keys): (usize, usize, usize),
    inputs: &[&[f64]],
) -> Vec<f64> {
    let (values, starts) = (inputs[0], inputs[1]);
    let row = |p: usize| inputs.get(2).map_or(p, |pairs| p - p % keys + pairs[pairs.len() / 2 + p] as usize);
    let join = op.join();
    let mut out = Vec::with_capacity(starts.len().saturating_sub(1) * width);
    for bounds in starts.windows(2) {
        let (start, end) = (bounds[0] as usize, bounds[1] as usize);
        let mut sums = vec![op.identity(dtype).to_f64(); width];
        for p in start..end.min(start + longest) {
            for (sum, &value) in sums.iter_mut().zip(&values[row(p) * width..]) {
                *sum = binary_value(join, dtype, *sum, value);
            }
        }
        out.extend(sums);
    }
    out
}
