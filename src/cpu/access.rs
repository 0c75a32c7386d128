//! Where the elements of a buffer lie along a strip, and under which conditions there are any.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::dtype::DType;
use crate::plan::{BufferId, Cond, Ix};

use super::execute::NOWHERE;
use super::position::{Forms, Line, Position, Row};
use super::space::Space;

/// Points that a line must have to be read by itself; shorter ones share a list of offsets.
const MIN_LINE: usize = 32;

/// Elements of a buffer (or just their numbers) along a strip.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) buffer: BufferId,
    pub(super) dtype: DType,
    pub(super) forms: Forms,
    pub(super) position: Position,
    /// Conditions that hold on one piece of each row.
    ranges: Vec<Condition>,
    /// Conditions to be tested at each element.
    pub(super) scattered: Vec<Condition>,
    /// The lines that rows consist of, where these are read or written one by one: they are equal or consecutive
    /// elements, unconditionally, and not too few.
    pub(super) line: Option<Line>,
    /// Unique in the process: names it in a cache of recipes.
    id: u64,
    /// False if its recipes would depend on more than a few numbers.
    has_recipes: bool,
}

/// A [`Cond`] over a space.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    position: Position,
    test: Test,
    /// The least and the largest value along a row, counted from the first.
    reach: (i64, i64),
}

/// What a condition asks of its value.
#[derive(Clone, Copy, Debug)]
enum Test {
    /// `0 <= value < size`
    Below(i64),
    /// divisible
    Multiple(i64),
}

impl Test {
    /// Whether `value` passes.
    #[inline(always)]
    fn holds(self, value: i64) -> bool {
        match self {
            Self::Below(size) => value >= 0 && value < size,
            Self::Multiple(by) => value.rem_euclid(by) == 0,
        }
    }
}

/// The number that a position's values along a row count from; what these then depend on is added to `key`.
fn base(position: &Position, row: &Row<'_>, key: &mut Vec<i64>) -> i64 {
    let mut base = row.values[position.form()];
    for quotient in &position.quotients {
        let value = row.values[quotient.form];
        key.push(value.rem_euclid(quotient.by));
        if !quotient.remainder {
            base += quotient.coefficient * value.div_euclid(quotient.by);
        }
    }
    base
}

impl Condition {
    /// Adds what tells rows apart along which it holds at different points: for most rows inside, nothing.
    fn classify(&self, row: &Row<'_>, key: &mut Vec<i64>) {
        let value = base(&self.position, row, key);
        let plain = self.position.quotients.is_empty();
        key.push(match self.test {
            Test::Below(size) if plain && value + self.reach.0 >= 0 && value + self.reach.1 < size => i64::MAX,
            Test::Below(size) if plain && (value + self.reach.1 < 0 || value + self.reach.0 >= size) => i64::MIN,
            Test::Below(_) => value,
            Test::Multiple(by) => value.rem_euclid(by),
        });
    }
}

impl Access {
    pub(super) fn new(space: &Space, buffer: BufferId, dtype: DType, index: &Ix, conditions: &[Cond]) -> Self {
        let mut forms = Forms::default();
        let position = space.position(index, &mut forms);
        let (mut ranges, mut scattered) = (Vec::new(), Vec::new());
        let mut has_recipes = !position.is_nested();
        for condition in conditions {
            let position = space.position(condition.value(), &mut forms);
            has_recipes &= !position.is_nested();
            let (test, whole) = match condition {
                Cond::InRange(_, size) => (Test::Below(*size), position.straight),
                Cond::Multiple(_, by) => (Test::Multiple(*by), position.straight && position.stride % by == 0),
            };
            let reach = position.steps().range(space.row());
            if whole { &mut ranges } else { &mut scattered }.push(Condition { position, test, reach });
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let is_worth_it = |line: &Line| line.points >= MIN_LINE && (0..=1).contains(&line.stride);
        let line = if conditions.is_empty() { position.lines().filter(is_worth_it) } else { None };
        Self { buffer, dtype, forms, position, ranges, scattered, line, id, has_recipes }
    }

    /// True if there may be no element at some points.
    pub(super) fn is_conditional(&self) -> bool {
        self.conditions().next().is_some()
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.ranges.iter().chain(&self.scattered)
    }

    /// The number that the recipe of a piece of a row counts from, and in `key` all that the recipe depends on; `None`
    /// if there are no recipes.
    pub(super) fn base(&self, row: &Row<'_>, count: usize, key: &mut Vec<i64>) -> Option<i64> {
        if !self.has_recipes {
            return None;
        }
        key.clear();
        key.extend([self.id as i64, (row.first as i64) << 32 | count as i64]);
        let base = base(&self.position, row, key);
        for condition in self.conditions() {
            condition.classify(row, key);
        }
        Some(base)
    }

    /// The part of a piece of `len` points where all of `ranges` hold.
    #[inline]
    pub(super) fn extent(&self, row: &Row<'_>, len: usize) -> (usize, usize) {
        let (mut low, mut high) = (0, len as i64);
        for Condition { position, test, .. } in &self.ranges {
            let (start, stride) = (position.start(row), position.stride);
            match *test {
                Test::Below(size) if stride > 0 => {
                    low = low.max(ceiling(-start, stride));
                    high = high.min(ceiling(size - start, stride));
                }
                Test::Below(size) if stride < 0 => {
                    low = low.max(ceiling(start - size + 1, -stride));
                    high = high.min(ceiling(start + 1, -stride));
                }
                test => {
                    if !test.holds(start) {
                        return (0, 0);
                    }
                }
            }
        }
        if low < high { (low as usize, high as usize) } else { (0, 0) }
    }

    /// True if it is one element (or none) for the whole strip.
    pub(super) fn is_constant(&self) -> bool {
        self.position.constant && self.conditions().all(|condition| condition.position.constant)
    }

    /// Rough nanoseconds that reading an element of rows of `row` points takes.
    pub(super) fn read_cost(&self, row: usize) -> f64 {
        let row_cost = 20.0 / row as f64;
        let runs = self.position.steps().runs(row) as f64 / row as f64;
        let each = match () {
            () if !self.has_recipes => 5.0,
            () if self.position.quotients.is_empty() => (0.1 + 3.0 * runs).min(0.5),
            () => 0.5,
        };
        // Now and then a recipe is new.
        let rare = if self.scattered.is_empty() { 0.0 } else { 0.1 };
        row_cost + each + rare
    }
}

/// `a / b` rounded up, for positive `b`.
#[inline(always)]
fn ceiling(a: i64, b: i64) -> i64 {
    if b == 1 { a } else { -((-a).div_euclid(b)) }
}

/// The element numbers along a piece of a row, [`NOWHERE`] where a condition fails.
pub(super) fn numbers(access: &Access, row: &Row<'_>, indices: &mut [i64], tested: &mut [i64]) {
    let (low, high) = access.extent(row, indices.len());
    access.position.fill(row, indices);
    indices[..low].fill(NOWHERE);
    indices[high..].fill(NOWHERE);
    for condition in &access.scattered {
        let tested = &mut tested[..indices.len()];
        condition.position.fill(row, tested);
        for (index, &value) in indices.iter_mut().zip(tested.iter()) {
            *index = if condition.test.holds(value) { *index } else { NOWHERE };
        }
    }
}
