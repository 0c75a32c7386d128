//! Products of f32 as sums of products of f16 terms, held against the error that [`MatmulPrecision::High`] promises.

use std::io::Write as _;

use super::contract::{convolved, product_turned};
use super::runner::Gpu;
use super::*;
use crate::gpu::render::{Binding, Units, probe_terms_text, probe_text, variants};
use crate::graph::{Binary, Unary};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::ContractKernel;

/// Units for f16 alone: those of the adapter, or, to look at the texts only, those of GPUs that are made.
fn units() -> Vec<Units> {
    match runner::gpu() {
        Some(Gpu { units: Some(units), .. }) if units.f16.is_some() => vec![Units { f32: None, ..*units }],
        _ => {
            // Not `eprintln!`: what that writes is shown for failing tests only.
            let _unseen = writeln!(std::io::stderr(), "texts only, as there is no adapter with matrix units for f16");
            let nvidia = Units { subgroups: [32, 32], f16: Some(16), f32: None, terms: true };
            vec![nvidia, Units { f16: Some(8), ..nvidia }, Units { subgroups: [32, 64], ..nvidia }]
        }
    }
}

fn capabilities_with(units: Units) -> Capabilities {
    Capabilities {
        busy_groups: 1,
        max_workgroup_bytes: 48 << 10,
        cooperative: Some(units),
        ..capabilities(false, true)
    }
}

/// The contraction, on request.
fn high(body: Body) -> ContractKernel {
    let Body::Contract(kernel) = body else { unreachable!("it is one") };
    ContractKernel { precision: MatmulPrecision::High, ..kernel }
}

/// Fills the operands with values of either sign whose sizes go from 2^`least` to 2^`most`.
fn scatter(case: &mut Case, operands: usize, [least, most]: [i32; 2]) {
    for (number, bytes) in case.contents.iter_mut().enumerate().take(operands) {
        let values = (0..bytes.len() / 4).map(|at| {
            let bits = (at + 77 * number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let exponent = least + (bits >> 40) as i32 % (most - least);
            let value = (1.0 + (bits >> 8 & 0xff_ffff) as f32 / 16_777_216.0) * (exponent as f32).exp2();
            if bits >> 60 & 1 == 1 { -value } else { value }
        });
        *bytes = values.flat_map(f32::to_le_bytes).collect();
    }
}

/// What the kernel gives in f64, all buffers.
fn reference(case: &Case, kernel: &ContractKernel) -> Vec<Vec<f64>> {
    let mut values = case.values(&case.contents);
    interpret(&case.plan, &case.kernel(&Body::Contract(kernel.clone())), &mut values, &case.uniforms, Rounding::None);
    values
}

/// The same of `change` of each operand, without the epilogue.
fn sums(case: &Case, kernel: &ContractKernel, change: impl Fn(&mut Code, ValueId) -> ValueId) -> Vec<Vec<f64>> {
    let changed = |(tape, value): &(Tape, ValueId)| {
        let mut code = Code(tape.clone());
        let value = change(&mut code, *value);
        (code.0, value)
    };
    let mut epilogue = Code::default();
    let sum = epilogue.push(DType::F32, InstrOp::Accumulator);
    let mut stores = kernel.stores.clone();
    stores.iter_mut().for_each(|store| store.value = sum);
    let (lhs, rhs) = (changed(&kernel.lhs), changed(&kernel.rhs));
    reference(case, &ContractKernel { lhs, rhs, epilogue: epilogue.0, stores, ..kernel.clone() })
}

/// The largest error as a part of what is allowed: that of the split, and that of `terms` sums beside it.
fn worst(case: &Case, kernel: &ContractKernel, got: &[Vec<u8>], terms: f64) -> f64 {
    let want = reference(case, kernel);
    let products = sums(case, kernel, |code, value| code.push(DType::F32, InstrOp::Unary(Unary::Abs, value)));
    // Σ (|a| + c) (|b| + c) = Σ |a·b| + c · Σ (|a| + |b|) + Σ c²
    let floor = 2f64.powi(-24);
    let floored = sums(case, kernel, |code, value| {
        let size = code.push(DType::F32, InstrOp::Unary(Unary::Abs, value));
        let floor = code.constant(DType::F32, floor);
        code.push(DType::F32, InstrOp::Binary(Binary::Add, size, floor))
    });
    let buffer = kernel.stores[0].buffer;
    let got = &case.values(got)[buffer];
    let mut worst = 0f64;
    for (at, (&want, &got)) in want[buffer].iter().zip(got).enumerate() {
        let (products, floored) = (products[buffer][at], floored[buffer][at]);
        let split = 2f64.powi(-21) * products + 2f64.powi(-11) * (floored - products) + 2f64.powi(-49) * terms;
        // and that of the epilogue
        let allowed = split + terms * 2f64.powi(-23) * products + 2f64.powi(-23) * want.abs();
        worst = worst.max((got - want).abs() / allowed);
        assert!(got.is_finite() && worst <= 1.0, "result {at} is {got} instead of {want}; {allowed} are allowed");
    }
    worst
}

/// Renders it with its sizes in the text and beside it; runs it where there are units, and gives the largest errors.
fn check(case: &mut Case, kernel: &ContractKernel, units: Units, terms: f64) -> Option<f64> {
    let body = Body::Contract(kernel.clone());
    let caps = capabilities_with(units);
    let mut found: Option<f64> = None;
    for literal in [true, false] {
        case.plan.literal_sizes = literal;
        let launches = render(&case.plan, &case.kernel(&body), &caps).expect("it renders");
        launches.iter().for_each(validate);
        let text = &launches[0].wgsl;
        assert!(text.contains("low_term(value, Sum(high))") && text.contains("b0_low"), "{text}");
        let Some(gpu) = runner::gpu().filter(|gpu| gpu.units.is_some_and(|own| own.f16 == units.f16)) else { continue };
        let mut got = case.contents.clone();
        gpu.run(&launches, &mut got, &case.uniforms);
        found = Some(worst(case, kernel, &got, terms).max(found.unwrap_or(0.0)));
    }
    found
}

/// Odd and prime sizes, operands and results that lie either way, batches, large tiles and small ones, an epilogue.
#[test]
fn products_are_as_exact_as_promised() {
    let plain = [false, false, false];
    let products = [
        ([4usize, 64, 64, 16], plain),
        ([4, 64, 64, 16], [true, true, false]),
        ([4, 64, 64, 16], [true, false, true]),
        ([1, 250, 120, 33], plain),
        ([1, 121, 101, 70], [true, true, false]),
        ([3, 67, 71, 37], [false, true, false]),
        ([1, 256, 128, 64], [false, true, true]),
    ];
    for units in units() {
        let mut sides = [64, 128].map(|rows| (format!("ROWS: u32 = {rows}u"), false));
        for (sizes, turned) in products {
            let mut case = Case::new();
            let kernel = high(product_turned(sizes, turned, DType::F32).build(&mut case));
            scatter(&mut case, 2, [-4, 2]);
            let found = check(&mut case, &kernel, units, sizes[3] as f64);
            eprintln!("{sizes:?} {turned:?}: {found:?} of the error allowed");
            let launches = render(&case.plan, &case.kernel(&Body::Contract(kernel)), &capabilities_with(units));
            let text = &launches.expect("it renders")[0].wgsl;
            sides.iter_mut().for_each(|(rows, seen)| *seen |= text.contains(rows.as_str()));
        }
        assert!(sides[0].1 && (sides[1].1 || units.subgroups[1] > 32), "small and large tiles");
    }
}

/// Two products to a sum, so that hardly anything but the split is off: over all sizes at which f16 is normal, down to
/// where it ends, and below.
#[test]
fn operands_of_all_sizes_are_as_exact_as_promised() {
    for range in [[-14, 15], [-25, -10], [-40, -20]] {
        for units in units() {
            let mut case = Case::new();
            let [m, n, k] = [131, 67, 32];
            let kernel = high(product_turned([1, m, n, k], [false, false, false], DType::F32).build(&mut case));
            scatter(&mut case, 2, range);
            // of the left operand, two values in each row
            for (at, value) in case.contents[0].chunks_exact_mut(4).enumerate() {
                let (row, column) = (at / k, at % k);
                if ![row % k, (row / 3 + 17) % k].contains(&column) {
                    value.fill(0);
                }
            }
            // no bias, beside which small results would not be seen
            case.contents[2].fill(0);
            let found = check(&mut case, &kernel, units, 2.0);
            eprintln!("from 2^{} to 2^{}: {found:?} of the error allowed", range[0], range[1]);
        }
    }
}

/// Of padded windows, with a stride and without; those of gradients are tried with a device (`matmul_precision`).
#[test]
fn a_convolution_is_as_exact_as_promised() {
    for units in units() {
        for (sizes, stride) in [([2, 5, 37, 13, 16], 1), ([3, 7, 41, 17, 19], 2)] {
            let mut case = Case::new();
            let kernel = high(convolved(&mut case, DType::F32, sizes, stride));
            scatter(&mut case, 2, [-3, 3]);
            let found = check(&mut case, &kernel, units, kernel.sizes()[3] as f64);
            eprintln!("convolution {sizes:?}: {found:?} of the error allowed");
        }
    }
}

/// What does not fit f16 is not clamped, and neither is what is not finite: a check finds it.
#[test]
fn operands_out_of_range_give_nan_where_they_take_part() {
    for units in units() {
        for value in [65_520.0, -1e9, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let mut case = Case::new();
            let [m, n, k] = [70, 130, 16];
            let kernel = high(product_turned([1, m, n, k], [false, false, false], DType::F32).build(&mut case));
            let at = 4 * (5 * k + 3);
            case.contents[0][at..at + 4].copy_from_slice(&value.to_le_bytes());
            let caps = capabilities_with(units);
            let launches =
                render(&case.plan, &case.kernel(&Body::Contract(kernel.clone())), &caps).expect("it renders");
            let Some(gpu) = runner::gpu().filter(|gpu| gpu.units.is_some_and(|own| own.f16 == units.f16)) else {
                return;
            };
            let mut got = case.contents.clone();
            gpu.run(&launches, &mut got, &case.uniforms);
            let results = &case.values(&got)[kernel.stores[0].buffer];
            for (at, result) in results.iter().enumerate() {
                assert_eq!(result.is_nan(), at / n == 5, "{value}: result {at} is {result}");
            }
        }
    }
}

/// What rounds to the largest number that f16 has is still split, with the largest low term there is.
#[test]
fn the_largest_operand_counts() {
    for units in units() {
        let mut case = Case::new();
        let kernel = high(product_turned([1, 70, 130, 16], [false, false, false], DType::F32).build(&mut case));
        case.contents[0][..4].copy_from_slice(&65_519.9f32.to_le_bytes());
        check(&mut case, &kernel, units, 16.0);
    }
}

/// Only on request, and only where units know f16 alone: all else is text for text what it was.
#[test]
fn nothing_changes_elsewhere() {
    let text = |kernel: &ContractKernel, case: &Case, caps: &Capabilities| {
        let launches = render(&case.plan, &case.kernel(&Body::Contract(kernel.clone())), caps).expect("it renders");
        launches.into_iter().map(|launch| launch.wgsl).collect::<Vec<_>>()
    };
    let nvidia = Units { subgroups: [32, 32], f16: Some(16), f32: None, terms: true };
    let mut case = Case::new();
    case.plan.literal_sizes = true;
    let asked = high(product_turned([1, 256, 256, 64], [false, false, false], DType::F32).build(&mut case));
    let plain = ContractKernel { precision: MatmulPrecision::Highest, ..asked.clone() };
    let with = capabilities_with(nvidia);
    assert_ne!(text(&asked, &case, &with), text(&plain, &case, &with));
    assert_eq!(variants(&with, &asked), [], "they sum in another order");
    assert!(variants(&with, &plain).len() > 1);
    let without = Capabilities { cooperative: None, ..with.clone() };
    assert_eq!(text(&plain, &case, &with), text(&plain, &case, &without), "f32 as ever");
    let flushing = Units { terms: false, ..nvidia };
    let apple = Units { f16: Some(8), f32: Some(8), ..nvidia };
    for units in [None, Some(flushing), Some(apple)] {
        for f16 in [true, false] {
            let caps = Capabilities { cooperative: units, f16, ..with.clone() };
            assert_eq!(text(&asked, &case, &caps), text(&plain, &case, &caps), "{units:?}");
            assert_eq!(variants(&caps, &asked), variants(&caps, &plain), "{units:?}");
        }
    }
    let mut case = Case::new();
    let asked = high(product_turned([1, 256, 256, 64], [false, false, false], DType::F16).build(&mut case));
    let plain = ContractKernel { precision: MatmulPrecision::Highest, ..asked.clone() };
    assert_eq!(text(&asked, &case, &with), text(&plain, &case, &with), "f16 is exact");
}

/// The trials of units, and what those of the adapter have right of what they should.
#[test]
fn what_tries_units_is_valid() {
    for size in [8, 16] {
        let subgroups = runner::gpu().and_then(|gpu| gpu.units).map_or([32, 64], |units| units.subgroups);
        let terms = (probe_terms_text(size, subgroups), size * size);
        let texts = [probe_text(size, true, subgroups), terms, probe_text(size, false, subgroups)];
        for (number, (wgsl, results)) in texts.into_iter().enumerate() {
            let mut case = Case::new();
            let buffer = case.buffer(DType::U32, [0.0; 4]);
            let launch = Launch {
                label: "trial".into(),
                wgsl,
                foreign: None,
                bindings: vec![Binding { buffer, offset_bytes: 0, size_bytes: 16, writable: true }],
                sizes: Vec::new(),
                uniforms: None,
                uses_status: false,
                groups: [1; 3],
            };
            validate(&launch);
            let Some(gpu) = runner::gpu().filter(|gpu| gpu.units.is_some_and(|own| own.f16 == Some(size))) else {
                continue;
            };
            if number < 2 {
                gpu.run(&[launch], &mut case.contents, &[]);
                assert_eq!(case.values(&case.contents)[0][0], results as f64, "trial {number}");
            }
        }
    }
}
