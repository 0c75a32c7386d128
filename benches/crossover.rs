//! Whether the crossovers that `brasa bench --crossover` finds by search are those that measuring sizes between the
//! searched ones gives: `cargo bench --bench crossover -- [DEVICE] [DEVICE]` (`gpu` and `cpu`, each against the other).

#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::ops::ControlFlow;

use brasa::Device;
use brasa::bench::{Crossover, Family, Method, crossover};
use brasa::train::ModelName;

/// Devices that differ by less may overtake each other at any size.
const EQUAL: f64 = 0.1;

fn main() -> brasa::Result<()> {
    // cargo adds flags of its own
    let mut names = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
    let mut device = |otherwise: &str| Device::named(&names.next().unwrap_or_else(|| otherwise.into()));
    let devices = [device("gpu")?, device("cpu")?];
    let method = Method::quick();
    let mut counts = [0; 3];
    for family in Family::all(ModelName::new("cnn")?) {
        for [reference, other] in [[0, 1], [1, 0]] {
            let [reference, other] = [&devices[reference], &devices[other]];
            let found = crossover(family, reference, other, &method, &mut |_| ControlFlow::Continue(()))?;
            let [slower, faster] = found.between;
            println!(
                "{}: {} overtakes {} between {slower:?} and {faster:?}",
                family.name(),
                other.name(),
                reference.name()
            );
            for size in between(&found) {
                let seconds = [family.seconds(size, reference, &method)?, family.seconds(size, other, &method)?];
                let verdict = verdict(&found, size, seconds);
                counts[verdict as usize] += 1;
                let [reference, other] = seconds.map(|seconds| seconds * 1e3);
                println!("{size:>10}  {reference:>10.3} ms  {other:>10.3} ms  {verdict:?}");
            }
        }
    }
    let [agree, equal, differ] = counts;
    println!("{agree} agree, {equal} are within {:.0} % of each other, {differ} differ", 100.0 * EQUAL);
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Agrees,
    Equal,
    Differs,
}

/// Sizes in the middle between neighbours that the search has measured.
fn between(found: &Crossover) -> Vec<usize> {
    let sizes = found.points.iter().map(|point| point.size);
    let pairs = sizes.clone().zip(sizes.skip(1));
    pairs.filter(|(low, high)| high - low > 1).map(|(low, high)| ((low * high) as f64).sqrt() as usize).collect()
}

/// What the search says of this size, against what was measured there.
fn verdict(found: &Crossover, size: usize, [reference, other]: [f64; 2]) -> Verdict {
    let is_predicted = match found.between {
        [_, Some(faster)] if size >= faster => Some(true),
        [Some(slower), _] if size <= slower => Some(false),
        _ => None,
    };
    if (reference / other).ln().abs() < EQUAL {
        Verdict::Equal
    } else if is_predicted.is_none_or(|faster| faster == (other < reference)) {
        Verdict::Agrees
    } else {
        Verdict::Differs
    }
}
