//! Which axes of an operand belong together as windows.

use crate::plan::Ix;

use super::super::pack::Groups;

/// How many times an element of the grid has to be used in place of one that is packed: 3x3 windows at steps of 2 that
/// make 7x7 places use each 1.96 times.
const MIN_OVERLAP: f64 = 1.5;

/// Steps from place to place along a line for which the grid's lines are kept in as many parts, and points of such a
/// line, at most.
const PARTS: std::ops::RangeInclusive<i64> = 2..=4;
pub(super) const MAX_PARTED: usize = 512;

/// A pair of axes that only appear as `unit + ratio · other`.
#[derive(Clone, Copy, Debug)]
struct Pair {
    own: usize,
    summed: usize,
    /// True if the operand's own axis is the one counted by one.
    own_is_unit: bool,
    ratio: i64,
}

impl Pair {
    /// The pair of axes `own` and `summed` of `axes`, if all `expressions` see one sum and windows overlap.
    fn new(axes: &[usize], own: usize, summed: usize, expressions: &[&Ix]) -> Option<Self> {
        // The first linear form in which they are tells what the ratio can only be.
        let mut strides = expressions.iter().filter_map(|ix| Some(ix.affine(axes.len())?.0));
        let known = strides.find(|strides| strides[own] != 0 || strides[summed] != 0)?;
        let candidate = |own_is_unit: bool| {
            let (unit, other) = if own_is_unit { (known[own], known[summed]) } else { (known[summed], known[own]) };
            let ratio = if unit == 0 { 0 } else { other / unit };
            (ratio != 0 && other % unit == 0).then_some(Self { own, summed, own_is_unit, ratio })
        };
        let overlap = |pair: &Self| (pair.ratio.unsigned_abs() as usize) < axes[pair.unit()];
        let mut both = [true, false].into_iter().filter_map(candidate);
        both.find(|pair| overlap(pair) && pair.holds(axes, expressions))
    }

    /// For each of the `own` axes, from the last on, the last of the `summed` ones that makes a pair with it.
    fn all(axes: &[usize], own: &[usize], summed: &[usize], expressions: &[&Ix]) -> Vec<Self> {
        let mut pairs: Vec<Self> = Vec::new();
        for &axis in own.iter().rev() {
            let free = summed.iter().rev().filter(|&&other| pairs.iter().all(|pair| pair.summed != other));
            let found = free.filter_map(|&other| Self::new(axes, axis, other, expressions)).next();
            pairs.extend(found);
        }
        pairs
    }

    fn unit(&self) -> usize {
        if self.own_is_unit { self.own } else { self.summed }
    }

    fn other(&self) -> usize {
        if self.own_is_unit { self.summed } else { self.own }
    }

    fn has(&self, axis: usize) -> bool {
        self.own == axis || self.summed == axis
    }

    /// True if all expressions depend on the sum alone.
    fn holds(&self, axes: &[usize], expressions: &[&Ix]) -> bool {
        let same: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
        let (mut without, mut sum) = (same.clone(), same.clone());
        without[self.other()] = Ix::constant(0);
        sum[self.unit()] = Ix::axis(self.unit()).plus(&Ix::axis(self.other()).times(self.ratio));
        expressions.iter().all(|ix| ix.substitute(&without, axes).substitute(&sum, axes) == ix.substitute(&same, axes))
    }

    /// What has to be added to make the sum never negative.
    fn shift(&self, axes: &[usize]) -> i64 {
        -(self.ratio * (axes[self.other()] as i64 - 1)).min(0)
    }

    /// Values of the sum.
    fn extent(&self, axes: &[usize]) -> usize {
        axes[self.unit()] + self.ratio.unsigned_abs() as usize * (axes[self.other()] - 1)
    }

    /// What a step along `axis`, one of the two, adds.
    fn step(&self, axis: usize) -> i64 {
        if axis == self.unit() { 1 } else { self.ratio }
    }
}

/// The axes of an operand as places and taps. Those of size 1 are left out.
pub(super) struct Roles<'a> {
    /// Sizes of all axes.
    axes: &'a [usize],
    pub(super) places_are_summed: bool,
    /// Axes of the places without windows, which come first, and those with one.
    pub(super) lead: Vec<usize>,
    pub(super) window: Vec<usize>,
    /// The same of the taps.
    pub(super) channel: Vec<usize>,
    pub(super) tap: Vec<usize>,
    /// The pair of each window axis, and the values of its sum: the grid's size.
    pairs: Vec<Pair>,
    pub(super) extents: Vec<usize>,
}

impl<'a> Roles<'a> {
    /// `None` if there are no windows that overlap enough, or not in the order that blocks need.
    pub(super) fn new(axes: &'a [usize], groups: &Groups<'_>, expressions: &[&Ix]) -> Option<Self> {
        let long = |group: &[usize]| group.iter().copied().filter(|&axis| axes[axis] > 1).collect::<Vec<usize>>();
        let (own, summed) = (long(groups.own), long(groups.summed));
        let pairs = Pair::all(axes, &own, &summed, expressions);
        let [of_own, of_summed] = [|pair: &Pair| pair.own, |pair: &Pair| pair.summed]
            .map(|axis| pairs.iter().map(|pair| axes[axis(pair)]).product::<usize>());
        let evaluated: usize = pairs.iter().map(|pair| pair.extent(axes)).product();
        if pairs.is_empty() || ((of_own * of_summed) as f64) < MIN_OVERLAP * evaluated as f64 {
            return None;
        }
        let places_are_summed = of_own < of_summed;
        let (places, taps) = if places_are_summed { (summed, own) } else { (own, summed) };
        let pair_of = |axis: usize| pairs.iter().find(|pair| pair.has(axis));
        let [(lead, window), (channel, tap)] = [places, taps].map(|mut group| {
            let lead = group.iter().take_while(|&&axis| pair_of(axis).is_none()).count();
            let rest = group.split_off(lead);
            (group, rest)
        });
        let of_windows: Vec<Pair> = window.iter().filter_map(|&axis| pair_of(axis)).copied().collect();
        let in_order = of_windows.len() == window.len() && tap.iter().all(|&axis| pair_of(axis).is_some());
        if !in_order || window.iter().zip(&of_windows).any(|(&axis, pair)| pair.step(axis) < 0) {
            return None;
        }
        let extents = of_windows.iter().map(|pair| pair.extent(axes)).collect();
        Some(Self { axes, places_are_summed, lead, window, channel, tap, pairs: of_windows, extents })
    }

    /// Sizes of some axes.
    pub(super) fn sizes(&self, group: &[usize]) -> Vec<usize> {
        group.iter().map(|&axis| self.axes[axis]).collect()
    }

    /// Steps of the grid from place to place along each window axis.
    pub(super) fn steps(&self) -> impl Iterator<Item = i64> {
        self.window.iter().zip(&self.pairs).map(|(&axis, pair)| pair.step(axis))
    }

    /// The grid's own axes.
    pub(super) fn walked(&self) -> Vec<usize> {
        self.pairs.iter().map(Pair::unit).collect()
    }

    /// The sizes of all axes where a grid takes the place of its pairs, and the old coordinates in the new ones.
    pub(super) fn in_grid(&self) -> (Vec<usize>, Vec<Ix>) {
        let mut reduced = self.axes.to_vec();
        let mut coords: Vec<Ix> = (0..self.axes.len()).map(Ix::axis).collect();
        for (pair, &extent) in self.pairs.iter().zip(&self.extents) {
            (reduced[pair.unit()], reduced[pair.other()]) = (extent, 1);
            coords[pair.unit()] = Ix::axis(pair.unit()).plus(&Ix::constant(-pair.shift(self.axes)));
            coords[pair.other()] = Ix::constant(0);
        }
        (reduced, coords)
    }

    /// Points of the grid for a step along its axis `number`.
    pub(super) fn stride(&self, number: usize) -> usize {
        self.extents[number + 1..].iter().product()
    }

    /// Where in the grid the first place's first tap is.
    pub(super) fn base(&self) -> i64 {
        self.pairs.iter().enumerate().map(|(number, pair)| pair.shift(self.axes) * self.stride(number) as i64).sum()
    }

    /// The parts that each line of the grid is kept in: one after the other its points number 0, p, 2p, ..., then 1, p
    /// + 1, ... Places that are `p` apart thus lie next to each other.
    pub(super) fn parts(&self) -> usize {
        let is_short = self.extents.last().is_some_and(|&extent| extent <= MAX_PARTED);
        match self.steps().last() {
            Some(step) if is_short && self.window.len() > 1 && PARTS.contains(&step) => step as usize,
            _ => 1,
        }
    }

    /// Where in a line of several parts a point is.
    fn in_parts(&self, point: usize) -> usize {
        let (parts, extent) = (self.parts(), self.extents[self.extents.len() - 1]);
        (0..point % parts).map(|part| (extent - part).div_ceil(parts)).sum::<usize>() + point / parts
    }

    /// Distances in the grid of all points of `group`, axes with windows, in order, from that of the first.
    pub(super) fn distances(&self, group: &[usize], sizes: &[usize]) -> Vec<i64> {
        let mut at = vec![0_i64];
        for (&axis, &size) in group.iter().zip(sizes) {
            let number = self.pairs.iter().position(|pair| pair.has(axis)).expect("it is one of a pair");
            let pair = &self.pairs[number];
            let distance = |coord: i64| match number + 1 == self.pairs.len() && self.parts() > 1 {
                false => pair.step(axis) * self.stride(number) as i64 * coord,
                true if self.window.contains(&axis) => coord,
                // where places are several points apart, taps are one, and the first one is the line's first point
                true => self.in_parts(coord as usize) as i64,
            };
            let distances: Vec<i64> = (0..size as i64).map(distance).collect();
            at = at.iter().flat_map(|&at| distances.iter().map(move |distance| at + distance)).collect();
        }
        at
    }
}
