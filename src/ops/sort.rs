//! The references of sorting and of reductions over segments; their gradients are rules of the methods built on them.

use crate::dtype::DType;
use crate::graph::{Runs, Search, Segments};

use super::elementwise::binary_value;

/// All keys with every run of every row sorted, then their former places in the row.
pub(crate) fn sorted(runs: Runs, inputs: &[&[f64]]) -> Vec<f64> {
    let keys = inputs[0];
    let places = (0..keys.len()).map(|element| (element % runs.length) as f64);
    sort_pairs(keys.iter().copied().zip(places).collect(), runs)
}

/// The same with runs twice as long; merging sorted runs is sorting them.
pub(crate) fn merged(Runs { length, run }: Runs, inputs: &[&[f64]]) -> Vec<f64> {
    let (keys, places) = inputs[0].split_at(inputs[0].len() / 2);
    let pairs = keys.iter().copied().zip(places.iter().copied()).collect();
    sort_pairs(pairs, Runs { length, run: run.saturating_mul(2) })
}

fn sort_pairs(mut pairs: Vec<(f64, f64)>, Runs { length, run }: Runs) -> Vec<f64> {
    for row in pairs.chunks_mut(length.max(1)) {
        for run in row.chunks_mut(run) {
            run.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    let (keys, places): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    [keys, places].concat()
}

/// For each query the number of elements of its row that come before it.
pub(crate) fn found(Search { length, queries, right }: Search, inputs: &[&[f64]]) -> Vec<f64> {
    let find = |(number, &query): (usize, &f64)| {
        let row = &inputs[0][number / queries * length..][..length];
        row.partition_point(|&element| element < query || right && element == query) as f64
    };
    inputs[1].iter().enumerate().map(find).collect()
}

/// Rows of values reduced over segments. Inputs are (values, starts) and maybe sorted pairs, as
/// [`crate::graph::Op::Segments`] has them.
pub(crate) fn segments(of: Segments, dtype: DType, inputs: &[&[f64]]) -> Vec<f64> {
    let Segments { op, width, longest, keys } = of;
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
