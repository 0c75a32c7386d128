use super::*;
use crate::error::Error;
use crate::graph::{Attention, AttentionPart, ReduceOp, Runs, Search, Segments};
use crate::ops::attention;
use crate::ops::scan::Scan;
use crate::plan::{Routine, RoutineKind, Span};

impl Case {
    /// Elements `first..` of a buffer.
    fn span(&self, buffer: BufferId, first: usize) -> Span {
        Span { buffer, offset: first, elements: self.plan.buffers[buffer].elements - first }
    }

    /// Keys with many repeats, and the largest ones there are.
    fn keys(&mut self, count: usize) -> BufferId {
        let key = |n: usize| [f64::from(u32::MAX), 1.0, 3e9, 0.0, 7.0][n * 7919 % 61 % 5] - (n % 3 % 2) as f64;
        self.buffer(DType::U32, (0..count).map(move |n| key(n).max(0.0)))
    }
}

#[test]
fn runs_are_sorted() {
    for (rows, length, run) in [(1, 1, 1), (2, 7, 7), (3, 37, 16), (1, 900, 1024)] {
        let mut case = Case::new();
        let keys = case.keys(rows * length + 3);
        let pairs = case.data(DType::U32, 2 * rows * length + 1);
        let (inputs, output) = (vec![case.span(keys, 3)], case.span(pairs, 1));
        case.check(Body::Routine(Routine { kind: RoutineKind::Sort(Runs { length, run }), inputs, output }));
    }
}

#[test]
fn runs_are_merged() {
    for (rows, length, run) in [(1, 2, 1), (2, 7, 4), (3, 37, 16), (2, 900, 256)] {
        let mut case = Case::new();
        // sorted by the interpreter first
        let count = rows * length;
        let mut keys: Vec<f64> = (0..count).map(|n| (n * 7919 % 61 % 11) as f64).collect();
        for row in keys.chunks_mut(length) {
            row.chunks_mut(run).for_each(|run| run.sort_by(f64::total_cmp));
        }
        let places = (0..count).map(|n| (n % length) as f64);
        let from = case.buffer(DType::U32, keys.into_iter().chain(places));
        let to = case.data(DType::U32, 2 * count);
        let (inputs, output) = (vec![case.span(from, 0)], case.span(to, 0));
        let body = Body::Routine(Routine { kind: RoutineKind::Merge(Runs { length, run }), inputs, output });
        case.check(body.clone());
        // more groups than fit into one dimension: with the limit of real adapters that takes 33 million elements
        case.check_on(&body, &Capabilities { max_groups: 2, ..capabilities(true, false) });
    }
}

#[test]
fn queries_find_their_places() {
    for right in [false, true] {
        let mut case = Case::new();
        let rows = case.buffer(DType::U32, (0..3 * 50).map(|n| f64::from(n % 50 * 3)));
        let queries = case.buffer(DType::U32, (0..3 * 7).map(|n| f64::from(n * 31 % 152)));
        let found = case.data(DType::U32, 3 * 7);
        let inputs = vec![case.span(rows, 0), case.span(queries, 0)];
        let kind = RoutineKind::Search(Search { length: 50, queries: 7, right });
        let output = case.span(found, 0);
        let body = Body::Routine(Routine { kind, inputs, output });
        case.check(body.clone());
        // rows behind several windows
        let caps = Capabilities { max_binding_bytes: 256, max_groups: 5, ..capabilities(true, false) };
        case.check_on(&body, &caps);
    }
}

#[test]
fn segments_are_reduced() {
    for dtype in [DType::F32, DType::I32, DType::U32] {
        for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod] {
            for (width, keys) in [(1, 40), (3, 0), (5, 40), (1, 8), (3, 20)] {
                let mut case = Case::new();
                let values = case.data(dtype, 40 * width);
                let starts = case.buffer(DType::U32, [0.0, 0.0, 1.0, 6.0, 39.0, 40.0]);
                let pairs = case.buffer(DType::U32, (0..80).map(|n| (n * 7919 % keys.max(1)) as f64));
                let out = case.data(dtype, 5 * width);
                let mut inputs = vec![case.span(values, 0), case.span(starts, 0)];
                inputs.extend((keys > 0).then(|| case.span(pairs, 0)));
                let kind = RoutineKind::Segments(Segments { op, width, longest: 20, keys }, dtype);
                let output = case.span(out, 0);
                // products of numbers up to 2 grow
                case.tolerance = 1e-3;
                case.check(Body::Routine(Routine { kind, inputs, output }));
            }
        }
    }
}

/// Rows, elements of a row, rows side by side, and elements of a block: one tile and several, with and without elements
/// and rows for all threads.
const SCANS: [(usize, usize, usize, usize); 9] = [
    (1, 1, 1, 1),
    (1, 5003, 1, 5003),
    (2, 5003, 1, 2048),
    (1, 4100, 1, 1030),
    (301, 17, 1, 17),
    (5, 700, 3, 700),
    (2, 131, 40, 50),
    (1, 23, 300, 23),
    (3, 40, 2, 7),
];

#[test]
fn scans_of_every_form() {
    for (number, (outer, length, inner, block)) in SCANS.into_iter().enumerate() {
        for reverse in [false, true] {
            let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum][(number + usize::from(reverse)) % 4];
            let dtype = [DType::F32, DType::I32, DType::U32][number % 3];
            let scan = Scan { op, dtype, length, inner, block, reverse };
            let mut case = Case::new();
            let values = case.data(dtype, outer * length * inner + 3);
            let results = case.data(dtype, outer * length * inner + 1);
            let mut inputs = vec![case.span(values, 3)];
            if block < length || reverse {
                let first = case.data(dtype, outer * scan.blocks() * inner);
                inputs.push(case.span(first, 0));
            }
            let output = case.span(results, 1);
            // sums of some thousand numbers
            case.tolerance = 1e-4;
            let body = Body::Routine(Routine { kind: RoutineKind::Scan(scan), inputs, output });
            case.check(body.clone());
            let usual = capabilities(true, false);
            let few = Capabilities { max_workgroup_invocations: 64, max_groups: 5, ..usual.clone() };
            case.check_on(&body, &few);
            case.check_on(&body, &Capabilities { least_threads: 64, ..usual });
        }
    }
}

/// The kernel for a part of attention over values of its own, with so many elements before what is saved and before what
/// is written: fours of rows are read and written as such where they are aligned.
fn attention_case(of: &Attention, before: usize) -> (Case, Body) {
    let mut case = Case::new();
    // sums over keys of sums of 64 products of up to 4, which cancel: those are added one by one, and are off by some
    // 1e-7 of their largest part, 400
    case.tolerance = 3e-4;
    let forward = Attention { part: AttentionPart::Forward, ..of.clone() };
    let [of_queries, of_keys, of_values, of_outputs] = of.elements();
    let operands = [of_queries, of_keys, of_values].map(|elements| case.data(DType::F32, elements));
    let values = case.values(&case.contents);
    let operand_values: Vec<&[f64]> = values.iter().map(Vec::as_slice).collect();
    let saved = attention::reference(&forward, &operand_values);
    let saved = case.buffer(DType::F32, std::iter::repeat_n(0.0, before).chain(saved));
    let slope = case.data(DType::F32, of_outputs);
    let written = case.data(DType::F32, of.written() + before);
    let mut inputs: Vec<Span> = operands.map(|buffer| case.span(buffer, 0)).to_vec();
    if of.part != AttentionPart::Forward {
        inputs.extend([case.span(saved, before), case.span(slope, 0)]);
    }
    let output = case.span(written, before);
    (case, Body::Routine(Routine { kind: RoutineKind::Attention(of.clone()), inputs, output }))
}

const PARTS: [AttentionPart; 3] = [AttentionPart::Forward, AttentionPart::Queries, AttentionPart::KeysAndValues];

/// Heads, queries, keys, features, outputs and whether queries see no later keys: rows with and without whole vectors
/// and equal shares, and around the sizes of workgroups and tiles.
const ATTENTIONS: [(usize, usize, usize, usize, usize, bool); 11] = [
    (1, 1, 1, 1, 1, false),
    (2, 65, 35, 6, 9, false),
    (3, 40, 70, 8, 4, true),
    (1, 131, 131, 64, 61, true),
    (2, 64, 64, 64, 64, false),
    (2, 37, 101, 64, 64, true),
    (2, 129, 7, 3, 64, false),
    (1, 33, 63, 64, 2, true),
    (2, 31, 65, 32, 32, true),
    (1, 67, 67, 37, 33, true),
    (2, 37, 41, 36, 36, true),
];

fn attention_of(
    (heads, queries, keys, features, outputs, causal): (usize, usize, usize, usize, usize, bool),
    part: AttentionPart,
) -> Attention {
    Attention { part, heads, queries, keys, features, outputs, scale: Scalar::new(DType::F32, 0.4), causal }
}

/// As much workgroup memory as WebGPU promises, as most GPUs have, and as NVIDIA's have.
const MEMORIES: [u32; 3] = [16 << 10, 32 << 10, 48 << 10];

#[test]
fn attention_and_its_gradients() {
    // every head in a launch of its own
    let small = |software| Capabilities {
        max_workgroup_bytes: 4 << 10,
        max_groups: 3,
        launch_milliseconds: 1e-3,
        ..capabilities(software, false)
    };
    let has = runner::gpu().map_or(u32::MAX, |gpu| gpu.workgroup_bytes);
    for sizes in ATTENTIONS {
        for part in PARTS {
            let (mut aligned, body) = attention_case(&attention_of(sizes, part), 4);
            aligned.check(body);
            let (mut case, body) = attention_case(&attention_of(sizes, part), 1);
            case.check(body.clone());
            for software in [true, false] {
                case.check_on(&body, &small(software));
            }
        }
    }
    // tiles for few heads and for many
    for sizes in [ATTENTIONS[1], ATTENTIONS[3], ATTENTIONS[5], ATTENTIONS[8]] {
        for part in PARTS {
            let (mut case, body) = attention_case(&attention_of(sizes, part), 4);
            for max_workgroup_bytes in MEMORIES.into_iter().filter(|&memory| memory <= has) {
                for busy_groups in [128, 1] {
                    let caps = Capabilities { busy_groups, max_workgroup_bytes, ..capabilities(false, false) };
                    case.check_on(&body, &caps);
                }
            }
        }
    }
}

/// Sizes at which loops are as long as they get: a driver ends them after some 65,000 steps.
#[test]
fn attention_over_the_longest_sequences() {
    for part in PARTS {
        let (queries, keys, tolerance) = match part {
            // sums of 32,768 terms that nothing divides
            AttentionPart::KeysAndValues => (*attention::QUERIES.end(), 1, 1e-2),
            _ => (1, *attention::KEYS.end(), 1e-4),
        };
        // scores so close to each other that all rows count
        let scale = Scalar::new(DType::F32, 0.01);
        let (mut case, body) =
            attention_case(&Attention { scale, ..attention_of((1, queries, keys, 64, 64, false), part) }, 1);
        case.tolerance = tolerance;
        for software in [true, false] {
            case.check_on(&body, &capabilities(software, false));
        }
    }
}

#[test]
fn attention_fits_into_registers_and_workgroup_memory() {
    let mut tiles = Vec::new();
    for features in 1..=64 {
        for outputs in (1..=64).filter(|outputs| features % 8 < 2 || outputs % 8 < 2) {
            for (part, memory) in PARTS.into_iter().flat_map(|part| MEMORIES.map(|memory| (part, memory))) {
                let (case, body) = attention_case(&attention_of((1, 1, 1, features, outputs, false), part), 1);
                let caps = Capabilities { max_workgroup_bytes: memory, busy_groups: 1, ..capabilities(false, false) };
                let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
                let text = &launches[0].wgsl;
                if !text.contains("fn place_of(") {
                    assert_eq!(memory, MEMORIES[0], "rows where there is memory for tiles of\n{text}");
                    continue;
                }
                let vectors = text.matches("var<private>").count();
                assert!(vectors <= 24, "{vectors} vectors in registers of\n{text}");
                if ![1, 7, 8, 33, 64].contains(&features) {
                    continue;
                }
                let module = naga::front::wgsl::parse_str(text).expect("it parses");
                let mut layouter = naga::proc::Layouter::default();
                layouter.update(module.to_ctx()).expect("sized types");
                let in_workgroup = module.global_variables.iter().map(|(_, variable)| variable);
                let bytes: u32 = in_workgroup
                    .filter(|variable| variable.space == naga::AddressSpace::WorkGroup)
                    .map(|variable| layouter[variable.ty].size)
                    .sum();
                assert!(bytes <= memory, "{bytes} bytes of workgroup memory in\n{text}");
                let threads: u32 = module.entry_points[0].workgroup_size.iter().product();
                assert!((64..=128).contains(&threads), "{threads} invocations in\n{text}");
                let is_size = |line: &&str| line.starts_with("const ROWS") || line.starts_with("const TILE");
                let tile: Vec<&str> = text.lines().filter(is_size).collect();
                tiles.push((part, tile.concat(), threads));
            }
        }
    }
    tiles.sort_by_key(|(part, tile, threads)| (*part as usize, tile.clone(), *threads));
    tiles.dedup();
    assert_eq!(tiles.len(), 12, "four tiles for each part, not {tiles:?}");
}

/// Times attention by rows and in tiles: `cargo test --lib measure_attention -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn measure_attention() {
    let gpu = runner::gpu().expect("an adapter");
    for sizes in [(32, 128, 128, 32, 32, true), (8, 512, 512, 64, 64, true), (96, 1024, 1024, 64, 64, true)] {
        for part in PARTS {
            let of = attention_of(sizes, part);
            let (case, body) = attention_case(&of, 4);
            for (name, software) in [("rows", true), ("tiles", false)] {
                for max_workgroup_bytes in MEMORIES.into_iter().filter(|&memory| memory <= gpu.workgroup_bytes) {
                    let caps = Capabilities { max_workgroup_bytes, ..capabilities(software, false) };
                    let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
                    let seconds = gpu.time(&launches, &case.contents);
                    let rate = of.flops() as f64 / seconds / 1e9;
                    eprintln!(
                        "{sizes:?} {part:?}, {name} in {} KiB: {:.3} ms, {rate:.1} GFLOP/s",
                        max_workgroup_bytes >> 10,
                        seconds * 1e3
                    );
                }
            }
        }
    }
}

#[test]
fn writes_larger_than_a_binding_are_an_error() {
    let mut case = Case::new();
    let (keys, pairs, more_pairs) = (case.keys(1000), case.data(DType::U32, 2000), case.data(DType::U32, 2000));
    let (values, starts) = (case.data(DType::F32, 10), case.data(DType::U32, 2001));
    let segments = Segments { op: ReduceOp::Sum, width: 1, longest: 10, keys: 1000 };
    let [sums, more_sums] = [(); 2].map(|()| case.data(DType::F32, 2000));
    let (op, dtype) = (ReduceOp::Sum, DType::F32);
    let scan = RoutineKind::Scan(Scan { op, dtype, length: 100, inner: 1, block: 100, reverse: false });
    for (kind, inputs, output) in [
        (RoutineKind::Sort(Runs { length: 1000, run: 1024 }), vec![keys], pairs),
        (RoutineKind::Merge(Runs { length: 1000, run: 256 }), vec![pairs], more_pairs),
        (RoutineKind::Search(Search { length: 1000, queries: 2001, right: false }), vec![keys, pairs], starts),
        (RoutineKind::Segments(segments, DType::F32), vec![values, starts], sums),
        (scan, vec![sums], more_sums),
    ] {
        let inputs = inputs.into_iter().map(|buffer| case.span(buffer, 0)).collect();
        let output = case.span(output, 0);
        let body = Body::Routine(Routine { kind, inputs, output });
        let caps = Capabilities { max_binding_bytes: 4096, ..capabilities(true, true) };
        let error = render(&case.plan, &case.kernel(&body), &caps).expect_err("a window too small");
        let written = (output.elements as u64 * 4).next_multiple_of(16);
        assert!(
            matches!(&error, Error::BindingTooLarge { kernel, bytes, limit_bytes: 4096 } if kernel == "test" && *bytes == written),
            "{error}"
        );
        assert!(error.to_string().contains("parts of the tensor"), "{error}");
    }
}

#[test]
fn rows_are_sorted_by_as_many_invocations_as_an_adapter_needs() {
    let caps = Capabilities { least_threads: 64, ..capabilities(false, false) };
    for (rows, length, run) in [(3, 10, 10), (1, 1, 1), (2, 300, 512), (2, 37, 16)] {
        let mut case = Case::new();
        let keys = case.keys(rows * length);
        let pairs = case.data(DType::U32, 2 * rows * length);
        let (inputs, output) = (vec![case.span(keys, 0)], case.span(pairs, 0));
        case.check_on(&Body::Routine(Routine { kind: RoutineKind::Sort(Runs { length, run }), inputs, output }), &caps);
    }
}
