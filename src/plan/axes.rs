//! Chooses a kernel's axes: as few as its memory accesses allow, and as many as make them free of quotients.

use super::index::{Atom, Ix};
use super::kernel::Body;

/// Splits axes that index expressions divide, drops those of size 1, merges those that always move together.
pub(super) fn canonicalize(body: &mut Body) {
    split(body);
    drop_units(body);
    while merge_one(body) {}
}

/// An axis `i` of size `n` that occurs in quotients and remainders by `d1 | d2 | … | n` becomes axes of sizes
/// `n/d_last, …, d2/d1, d1`; the expressions become plain sums.
fn split(body: &mut Body) {
    let sizes = body.axes().to_vec();
    let mut divisors: Vec<Vec<i64>> = vec![Vec::new(); sizes.len()];
    body.for_each_index(|index| collect_divisors(index, &mut divisors));
    let mut counts = body.axis_counts();
    let mut axes = Vec::new();
    let mut coords = Vec::new();
    let mut group = 0;
    let mut left = counts.clone();
    for (axis, mut divisors) in divisors.into_iter().enumerate() {
        while left[group] == 0 {
            group += 1;
        }
        left[group] -= 1;
        let size = sizes[axis] as i64;
        divisors.retain(|&d| d > 1 && d < size);
        divisors.sort_unstable();
        divisors.dedup();
        divisors.push(size);
        let chain = divisors.windows(2).all(|pair| pair[1] % pair[0] == 0);
        if divisors.len() == 1 || !chain || size == 0 {
            coords.push(Ix::axis(axes.len()));
            axes.push(sizes[axis]);
            continue;
        }
        counts[group] += divisors.len() - 1;
        // from the coarsest part to the finest
        let mut sum = Ix::constant(0);
        for part in (0..divisors.len()).rev() {
            let unit = if part == 0 { 1 } else { divisors[part - 1] };
            sum = sum.plus(&Ix::axis(axes.len()).times(unit));
            axes.push((divisors[part] / unit) as usize);
        }
        coords.push(sum);
    }
    if axes.len() != sizes.len() {
        body.map_indices(|index| index.substitute(&coords, &axes));
        body.set_axes(axes, &counts);
    }
}

fn collect_divisors(index: &Ix, divisors: &mut [Vec<i64>]) {
    for (atom, _) in &index.terms {
        if let Atom::Div(inner, by) | Atom::Mod(inner, by) = atom {
            if let ([(Atom::Axis(axis), 1)], 0) = (inner.terms.as_slice(), inner.offset) {
                divisors[*axis].push(*by);
            }
            collect_divisors(inner, divisors);
        }
    }
}

fn drop_units(body: &mut Body) {
    let sizes = body.axes().to_vec();
    if sizes.iter().all(|&size| size != 1) {
        return;
    }
    let counts = body.axis_counts();
    let mut axes = Vec::new();
    let mut coords = Vec::new();
    let mut new_counts = Vec::new();
    let mut next = 0;
    for &count in &counts {
        let before = axes.len();
        for &size in &sizes[next..next + count] {
            if size == 1 {
                coords.push(Ix::constant(0));
            } else {
                coords.push(Ix::axis(axes.len()));
                axes.push(size);
            }
        }
        next += count;
        new_counts.push(axes.len() - before);
    }
    body.map_indices(|index| index.substitute(&coords, &axes));
    body.set_axes(axes, &new_counts);
}

/// Merges the first pair of neighbouring axes of one group that every expression uses as one.
fn merge_one(body: &mut Body) -> bool {
    let sizes = body.axes().to_vec();
    let counts = body.axis_counts();
    let mut start = 0;
    for (group, &count) in counts.iter().enumerate() {
        for first in start..(start + count).saturating_sub(1) {
            let mut together = true;
            body.for_each_index(|index| together &= moves_together(index, first, sizes[first + 1] as i64));
            if together {
                let mut axes = sizes.clone();
                // where there is an axis of size 0, the others may be of any size
                axes[first] = axes[first].saturating_mul(axes.remove(first + 1));
                let mut counts = counts.clone();
                counts[group] -= 1;
                body.map_indices(|index| merged(index, first));
                body.set_axes(axes, &counts);
                return true;
            }
        }
        start += count;
    }
    false
}

fn coefficient(index: &Ix, axis: usize) -> i64 {
    index.terms.iter().find(|(atom, _)| *atom == Atom::Axis(axis)).map_or(0, |term| term.1)
}

fn moves_together(index: &Ix, first: usize, size: i64) -> bool {
    coefficient(index, first) == coefficient(index, first + 1) * size
        && index.terms.iter().all(|(atom, _)| match atom {
            Atom::Axis(_) => true,
            Atom::Div(inner, _) | Atom::Mod(inner, _) => moves_together(inner, first, size),
        })
}

/// The expression with axes `first` and `first + 1` merged into `first`, and later ones renumbered.
fn merged(index: &Ix, first: usize) -> Ix {
    let mut sum = Ix::constant(index.offset);
    for (atom, c) in &index.terms {
        let atom = match atom {
            Atom::Axis(axis) if *axis == first => continue,
            Atom::Axis(axis) if *axis > first => Atom::Axis(axis - 1),
            Atom::Axis(axis) => Atom::Axis(*axis),
            Atom::Div(inner, by) => Atom::Div(Box::new(merged(inner, first)), *by),
            Atom::Mod(inner, by) => Atom::Mod(Box::new(merged(inner, first)), *by),
        };
        sum = sum.plus(&Ix { terms: vec![(atom, *c)], offset: 0 });
    }
    sum
}
