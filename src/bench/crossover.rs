//! From which size on is a GPU worth it?

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::train::ModelName;

use super::Method;
use super::cases::{self, Case};
use super::method::measure;

/// From one coarse size to the next.
const STRIDE: usize = 4;
/// How often the interval between two coarse sizes is halved, in proportion.
const HALVINGS: usize = 3;
/// The part of the other's time that counts as faster; less is noise.
const CLEARLY: f64 = 0.98;
/// Overtaking once may be chance; from so many coarse sizes on in a row it is not.
const IN_A_ROW: usize = 2;

/// What grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Products of two square matrices, by their side.
    Matmul,
    /// Adding 1 to a tensor, by its elements.
    Elementwise,
    /// A 3×3 convolution of pictures of 64×32×32, by their number.
    Convolution,
    /// A training step of a network, by the size of its batch.
    Training(ModelName),
}

impl Family {
    /// All of them, with this network.
    pub const fn all(model: ModelName) -> [Self; 4] {
        [Self::Matmul, Self::Elementwise, Self::Convolution, Self::Training(model)]
    }

    /// What is done, and what its size is.
    pub fn name(self) -> String {
        match self {
            Self::Matmul => "product of two n x n matrices".into(),
            Self::Elementwise => "x + 1 of n elements".into(),
            Self::Convolution => "3x3 convolution of n pictures of 64x32x32".into(),
            Self::Training(model) => format!("training step of {model}, batch n"),
        }
    }

    /// Whether sizes beyond this one would be tried if they did not take too long.
    #[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "for people"))]
    pub(crate) const fn has_larger(self, size: usize) -> bool {
        size.saturating_mul(STRIDE) <= self.sizes()[1]
    }

    /// The least and the largest size that is tried.
    const fn sizes(self) -> [usize; 2] {
        match self {
            Self::Matmul => [16, 4096],
            Self::Elementwise => [1 << 8, 1 << 26],
            Self::Convolution => [1, 64],
            Self::Training(_) => [1, 1024],
        }
    }

    /// Seconds of one run of this size, waited for: the median.
    ///
    /// # Errors
    /// If the device fails, or `method` measures nothing.
    pub fn seconds(self, size: usize, device: &Device, method: &Method) -> Result<f64> {
        method.check()?;
        let work = (self.case(size).make)(device)?;
        measure(work, method, false).map(|measured| measured.median_s)
    }

    fn case(self, size: usize) -> Case {
        match self {
            Self::Matmul => cases::square(size),
            Self::Elementwise => cases::add_one(size),
            Self::Convolution => cases::convolution(size),
            Self::Training(model) => cases::training(model, size),
        }
    }
}

/// Both devices at one size.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Crossing {
    /// How large.
    pub size: usize,
    /// Seconds of one run on the first device and on the second, waited for.
    pub seconds: [f64; 2],
}

/// Where one device overtakes another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Crossover {
    /// What grows.
    pub family: Family,
    /// The devices by selector: the one that is to be overtaken, and the other.
    pub devices: [String; 2],
    /// What was measured, in the order of sizes.
    pub points: Vec<Crossing>,
    /// The largest size at which the second was slower, and the least one from which on it was faster; without the
    /// first it was faster everywhere, without the second nowhere.
    pub between: [Option<usize>; 2],
    /// What was wrong with the next size, where the search ended at it: it may need more memory than there is.
    #[serde(default)]
    pub ended_by: Option<String>,
}

/// Searches the size at which `other` overtakes `reference`: sizes grow by fours until it is faster twice in a row or a
/// run takes too long for `method`, then the last step is halved. `tell` hears of each size before it is measured, and may end
/// the search.
///
/// # Errors
/// If a device fails at the smallest size, `tell` does not want it measured, or `method` measures nothing.
pub fn crossover(
    family: Family,
    reference: &Device,
    other: &Device,
    method: &Method,
    tell: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Crossover> {
    let mut time = |size: usize| -> Result<Crossing> {
        if tell(size).is_break() {
            return Err(Error::stopped());
        }
        Ok(Crossing { size, seconds: [family.seconds(size, reference, method)?, family.seconds(size, other, method)?] })
    };
    let Found { points, between, ended_by } = search(family.sizes(), method.longest_s, &mut time)?;
    let devices = [reference, other].map(|device| device.info().selector.clone());
    let ended_by = ended_by.map(|error| error.to_string());
    Ok(Crossover { family, devices, points, between, ended_by })
}

#[derive(Debug)]
struct Found {
    points: Vec<Crossing>,
    between: [Option<usize>; 2],
    ended_by: Option<Error>,
}

fn search([least, most]: [usize; 2], longest_s: f64, time: &mut dyn FnMut(usize) -> Result<Crossing>) -> Result<Found> {
    let is_faster = |point: &Crossing| point.seconds[1] < CLEARLY * point.seconds[0];
    let mut points: Vec<Crossing> = vec![time(least)?];
    let mut ended_by = None;
    let mut size = least * STRIDE;
    while size <= most {
        let row = points.iter().rev().take_while(|point| is_faster(point)).count();
        if row >= IN_A_ROW || next(&points).iter().any(|&seconds| seconds > longest_s) {
            break;
        }
        match time(size) {
            Ok(point) => points.push(point),
            Err(error) => {
                ended_by = Some(error);
                break;
            }
        }
        size *= STRIDE;
    }
    if let [.., before, last] = &points[..]
        && is_faster(last)
        && !is_faster(before)
    {
        // it stands alone at the end, where once may be chance
        match time(last.size) {
            Ok(again) if !is_faster(&again) => *points.last_mut().expect("it is there") = again,
            Ok(_) => {}
            Err(error) => ended_by = Some(error),
        }
    }
    let row = points.iter().rev().take_while(|point| is_faster(point)).count();
    let first = (row > 0).then(|| points.len() - row);
    let mut faster = first.map(|first| points[first].size);
    let mut slower = match first {
        Some(0) => None,
        Some(first) => Some(points[first - 1].size),
        None => points.last().map(|point| point.size),
    };
    if let (Some(low), Some(high)) = (&mut slower, &mut faster) {
        for _ in 0..HALVINGS {
            let middle = ((*low as f64) * (*high as f64)).sqrt().round() as usize;
            if middle <= *low || middle >= *high {
                break;
            }
            let point = match time(middle) {
                Ok(point) => point,
                Err(error) => {
                    ended_by = Some(error);
                    break;
                }
            };
            *(if is_faster(&point) { &mut *high } else { &mut *low }) = middle;
            points.push(point);
        }
    }
    points.sort_by_key(|point| point.size);
    Ok(Found { points, between: [slower, faster], ended_by })
}

/// Seconds that the next size may take: they grow at least as the size does, and as they grew from the one before to
/// the last.
fn next(points: &[Crossing]) -> [f64; 2] {
    let [.., last] = points else { return [0.0; 2] };
    let before = points.len().checked_sub(2).map(|before| points[before]);
    [0, 1].map(|side| {
        let grown = before.map_or(0.0, |before| last.seconds[side] / before.seconds[side]);
        last.seconds[side] * grown.max(STRIDE as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that takes a microsecond for each unit against one that takes `latency` and a tenth of that.
    fn found(latency: f64, sizes: [usize; 2]) -> Found {
        let mut time = |size: usize| {
            let each = size as f64 * 1e-6;
            Ok(Crossing { size, seconds: [each, latency + each / 10.0] })
        };
        search(sizes, 1e9, &mut time).expect("the first size is measured")
    }

    #[test]
    fn overtaking_once_at_the_end_may_be_chance() {
        let mut measured = 0;
        let mut once = |size: usize| {
            measured += usize::from(size == 16);
            let other = if size == 16 && measured == 1 { 0.9 } else { 1.1 };
            Ok(Crossing { size, seconds: [1.0, other] })
        };
        assert_eq!(search([1, 16], 1e9, &mut once).expect("it is measured").between, [Some(16), None]);
        assert_eq!(measured, 2);
        let mut hardly = |size: usize| Ok(Crossing { size, seconds: [1.0, 0.99] });
        assert_eq!(search([1, 16], 1e9, &mut hardly).expect("it is measured").between, [Some(16), None]);
    }

    #[test]
    fn the_size_is_found() {
        // 0.9 µs for each of them is 100 µs at 111
        let Found { points, between: [slower, faster], .. } = found(100e-6, [1, 1 << 20]);
        let (slower, faster) = (slower.expect("small ones"), faster.expect("large ones"));
        assert!(slower <= 111 && faster > 111 && (faster as f64) < 1.3 * slower as f64, "{slower} {faster}");
        assert!(points.is_sorted_by_key(|point| point.size));
        assert_eq!(found(1.0, [1, 1000]).between, [Some(256), None]);
        assert_eq!(found(0.0, [1, 1000]).between, [None, Some(1)]);
    }

    #[test]
    fn what_takes_too_long_is_not_tried() {
        let mut sizes = Vec::new();
        let mut time = |size: usize| {
            sizes.push(size);
            Ok(Crossing { size, seconds: [size as f64, 2.0 * size as f64] })
        };
        let found = search([1, 1 << 20], 100.0, &mut time).expect("it cannot fail");
        assert_eq!((&sizes[..], found.between), (&[1, 4, 16][..], [Some(16), None]));
        sizes.clear();
        let mut cubic = |size: usize| {
            sizes.push(size);
            Ok(Crossing { size, seconds: [(size as f64).powi(3), 0.0] })
        };
        search([1, 1 << 20], 1000.0, &mut cubic).expect("it cannot fail");
        assert_eq!(sizes, [1, 4], "16 would take 4,096 s");
    }

    #[test]
    fn a_size_that_fails_ends_the_search_and_not_what_was_found() {
        let mut time = |size: usize| match size {
            ..64 => Ok(Crossing { size, seconds: [size as f64, 2.0] }),
            _ => Err(Error::Config("too large".into())),
        };
        let found = search([1, 1 << 20], 1e9, &mut time).expect("small ones are measured");
        assert_eq!(found.between, [Some(2), Some(3)]);
        assert!(found.ended_by.is_none(), "twice in a row");
        let mut slow = |size: usize| time(size).map(|point| Crossing { seconds: [point.seconds[0], 1e3], ..point });
        let found = search([1, 1 << 20], 1e9, &mut slow).expect("small ones are measured");
        assert_eq!((found.points.len(), found.between), (3, [Some(16), None]));
        assert!(found.ended_by.is_some_and(|error| error.to_string().contains("too large")));
    }
}
