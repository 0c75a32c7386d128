use super::*;
use crate::graph::{Runs, Search, Segments};

fn span(buffer: BufferId, data: &[Data], range: std::ops::Range<usize>) -> Span {
    assert!(range.end <= data[buffer].values.len());
    Span { buffer, offset: range.start, elements: range.len() }
}

/// Keys with many repeats, and the largest ones there are.
fn keys(count: usize) -> Data {
    Data::new(DType::U32, (0..count).map(|n| (n * 7919 % 61) as f64 * 71_582_788.0))
}

#[test]
fn runs_are_sorted_and_merged() {
    for (rows, length) in [(1, 1), (3, 7), (2, 1500), (40, 33), (1, 5003), (9000, 2)] {
        for run in [4, 64, 1024, length] {
            let count = rows * length;
            let data = [keys(count + 3), Data::zeros(DType::U32, 2 * count + 5), Data::zeros(DType::U32, 2 * count)];
            let (from, pairs) = (span(0, &data, 3..3 + count), span(1, &data, 5..5 + 2 * count));
            let sort = Routine {
                kind: RoutineKind::Sort(Runs { length, run: run.min(length) }),
                inputs: vec![from],
                output: pairs,
            };
            let merge = Routine {
                kind: RoutineKind::Merge(Runs { length, run }),
                inputs: vec![pairs],
                output: span(2, &data, 0..2 * count),
            };
            check(vec![Body::Routine(sort), Body::Routine(merge)], &data, 0.0);
        }
    }
}

#[test]
fn queries_find_their_places_in_any_order() {
    for (rows, length, queries) in [(1, 1, 5), (1, 700, 20_000), (3, 50, 7)] {
        for right in [false, true] {
            let row = |n: usize| (n % length) as f64 * 3.0;
            let data = [
                Data::new(DType::U32, (0..rows * length).map(row)),
                Data::new(DType::U32, (0..rows * queries).map(|n| (n * 7919 % (3 * length + 2)) as f64)),
                Data::zeros(DType::U32, rows * queries),
            ];
            let routine = Routine {
                kind: RoutineKind::Search(Search { length, queries, right }),
                inputs: vec![span(0, &data, 0..rows * length), span(1, &data, 0..rows * queries)],
                output: span(2, &data, 0..rows * queries),
            };
            check(vec![Body::Routine(routine)], &data, 0.0);
        }
    }
}

#[test]
fn segments_of_every_type_and_width() {
    for (dtype, op) in [
        (DType::F32, ReduceOp::Sum),
        (DType::F32, ReduceOp::Max),
        (DType::I32, ReduceOp::Prod),
        (DType::U32, ReduceOp::Min),
    ] {
        for width in [1, 3, 70] {
            let (count, starts) = (400, [0.0, 0.0, 1.0, 130.0, 130.0, 399.0, 400.0]);
            for keys in [0, count, 80] {
                let places = (0..2 * count).map(|n| (n * 7919 % keys.max(1)) as f64);
                let data = [
                    Data::random(dtype, count * width),
                    Data::new(DType::U32, starts),
                    Data::new(DType::U32, places),
                    Data::zeros(dtype, (starts.len() - 1) * width),
                ];
                let mut inputs = vec![span(0, &data, 0..count * width), span(1, &data, 0..starts.len())];
                inputs.extend((keys > 0).then(|| span(2, &data, 0..2 * count)));
                let output = span(3, &data, 0..(starts.len() - 1) * width);
                let kind = RoutineKind::Segments(Segments { op, width, longest: 300, keys }, dtype);
                check(vec![Body::Routine(Routine { kind, inputs, output })], &data, 1e-5);
            }
        }
    }
}

#[test]
fn scans_of_every_type_and_width() {
    use crate::ops::scan::Scan;
    // strips of one row and of several, more rows side by side than are gone over together, blocks of some elements
    for (outer, length, inner, block) in
        [(1, 1, 1, 1), (3, 5003, 1, 5003), (1, 40_000, 1, 17_000), (700, 30, 1, 30), (2, 600, 7, 100), (2, 9, 600, 4)]
    {
        for (dtype, op) in [
            (DType::F32, ReduceOp::Sum),
            (DType::F32, ReduceOp::Max),
            (DType::I32, ReduceOp::Sum),
            (DType::I32, ReduceOp::Min),
            (DType::U32, ReduceOp::Prod),
        ] {
            for reverse in [false, true] {
                let scan = Scan { op, dtype, length, inner, block, reverse };
                let count = outer * length * inner;
                let data = [
                    Data::random(dtype, count + 3),
                    Data::random(dtype, outer * scan.blocks() * inner),
                    Data::zeros(dtype, count + 1),
                ];
                let mut inputs = vec![span(0, &data, 3..3 + count)];
                inputs.extend((block < length).then(|| span(1, &data, 0..data[1].values.len())));
                let output = span(2, &data, 1..1 + count);
                check(vec![Body::Routine(Routine { kind: RoutineKind::Scan(scan), inputs, output })], &data, 1e-6);
            }
        }
    }
}

#[test]
fn attention_and_its_gradients() {
    use crate::graph::{Attention, AttentionPart};
    // one block and several, with and without whole vectors, chunks and tiles
    for (heads, queries, keys, features, outputs, causal) in [
        (1, 1, 1, 1, 1, false),
        (2, 33, 5, 3, 7, false),
        (3, 32, 32, 32, 32, true),
        (2, 70, 301, 17, 40, false),
        (2, 150, 173, 64, 33, true),
        (1, 131, 131, 2, 64, true),
    ] {
        let scale = Scalar::new(DType::F32, 0.4);
        let of = |part| Attention { part, heads, queries, keys, features, outputs, scale, causal };
        let parts = [AttentionPart::Forward, AttentionPart::Queries, AttentionPart::KeysAndValues].map(of);
        let [of_queries, of_keys, of_values, of_outputs] = parts[0].elements();
        let mut data = [of_queries, of_keys, of_values, of_outputs].map(|n| Data::random(DType::F32, n)).to_vec();
        // behind one element each, so that places count
        data.extend(parts.iter().map(|part| Data::zeros(DType::F32, part.written() + 1)));
        let whole = |buffer: usize| span(buffer, &data, 0..data[buffer].values.len());
        let written = |buffer: usize| span(buffer, &data, 1..data[buffer].values.len());
        let bodies = parts.into_iter().enumerate().map(|(number, part)| {
            let mut inputs = vec![whole(0), whole(1), whole(2)];
            if number > 0 {
                inputs.extend([written(4), whole(3)]);
            }
            Body::Routine(Routine { kind: RoutineKind::Attention(part), inputs, output: written(4 + number) })
        });
        check(bodies.collect(), &data, 2e-5);
    }
}
