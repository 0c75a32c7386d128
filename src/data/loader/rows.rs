//! Samples put together, before they are a batch.

use std::fmt;

use crate::data::augment::PARAMETERS;
use crate::data::pipeline::Item;
use crate::data::{Batch, Sample, Target, Targets, Values};
use crate::error::{Error, Result};
use crate::units::counted;

/// Samples of one shape, one after the other.
pub(super) struct Rows {
    /// Shape of each.
    pub(super) shape: Vec<usize>,
    pub(super) inputs: Values,
    pub(super) targets: Targets,
    /// Which samples they are.
    pub(super) items: Vec<Item>,
    /// What is random in their augmentation, row by row, if the device carries it out.
    pub(super) parameters: Vec<f32>,
}

impl Default for Rows {
    fn default() -> Self {
        let (inputs, targets) = (Values::U8(Vec::new()), Targets::Classes(Vec::new()));
        Self { shape: Vec::new(), inputs, targets, items: Vec::new(), parameters: Vec::new() }
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// True if there is memory for samples.
    pub(super) fn has_memory(&self) -> bool {
        match &self.inputs {
            Values::U8(values) => values.capacity() > 0,
            Values::F32(values) => values.capacity() > 0,
        }
    }

    /// Forgets the samples, not the memory.
    pub(super) fn clear(&mut self) {
        match &mut self.inputs {
            Values::U8(values) => values.clear(),
            Values::F32(values) => values.clear(),
        }
        match &mut self.targets {
            Targets::Classes(classes) => classes.clear(),
            Targets::Masks(masks) => masks.clear(),
            Targets::Numbers(numbers) => numbers.clear(),
            mixed @ Targets::Mixed { .. } => *mixed = Targets::Classes(Vec::new()),
        }
        self.items.clear();
        self.parameters.clear();
    }

    /// The memory of a batch that nobody needs any more.
    pub(super) fn recycled(batch: Batch) -> Self {
        let Batch { inputs, targets, parameters, .. } = batch;
        let mut this = Self { inputs, targets, parameters: parameters.unwrap_or_default(), ..Self::default() };
        this.clear();
        this
    }

    /// Adds a sample. The first one decides for how many there will be memory at once.
    ///
    /// # Errors
    /// If it does not go with those that are there.
    pub(super) fn push(&mut self, sample: &Sample, item: Item, parameters: &[f32], capacity: usize) -> Result<()> {
        let kind = Kind::of(&sample.target);
        if self.is_empty() {
            self.begin(&sample.shape, sample.input.dtype() == crate::DType::U8, kind);
            self.reserve(capacity, parameters.len());
        }
        self.check_fits(&sample.shape, sample.input.dtype(), kind, item)?;
        match (&mut self.inputs, &sample.input) {
            (Values::U8(all), Values::U8(values)) => all.extend_from_slice(values),
            (Values::F32(all), Values::F32(values)) => all.extend_from_slice(values),
            _ => unreachable!("types were compared"),
        }
        match (&mut self.targets, &sample.target) {
            (Targets::Classes(all), Target::Class(class)) => all.push(*class),
            (Targets::Masks(all), Target::Mask(mask)) => all.extend_from_slice(mask),
            (Targets::Numbers(all), Target::Numbers(numbers)) => all.extend_from_slice(numbers),
            _ => unreachable!("kinds were compared"),
        }
        self.items.push(item);
        self.parameters.extend_from_slice(parameters);
        Ok(())
    }

    /// Adds `count` of the rows of `other`, from number `first` on.
    pub(super) fn append(&mut self, other: &Self, first: usize, count: usize, capacity: usize) -> Result<()> {
        let kind = Kind::of_all(&other.targets, other.len());
        let width = if other.parameters.is_empty() { 0 } else { PARAMETERS };
        if self.is_empty() {
            self.begin(&other.shape, other.inputs.dtype() == crate::DType::U8, kind);
            self.reserve(capacity, width);
        }
        self.check_fits(&other.shape, other.inputs.dtype(), kind, other.items[first])?;
        let size: usize = self.shape.iter().product();
        let range = |width: usize| first * width..(first + count) * width;
        match (&mut self.inputs, &other.inputs) {
            (Values::U8(all), Values::U8(values)) => all.extend_from_slice(&values[range(size)]),
            (Values::F32(all), Values::F32(values)) => all.extend_from_slice(&values[range(size)]),
            _ => unreachable!("types were compared"),
        }
        match (&mut self.targets, &other.targets) {
            (Targets::Classes(all), Targets::Classes(classes)) => all.extend_from_slice(&classes[range(1)]),
            (Targets::Masks(all), Targets::Masks(masks)) => {
                all.extend_from_slice(&masks[range(pixels(&self.shape))]);
            }
            (Targets::Numbers(all), Targets::Numbers(numbers)) => {
                all.extend_from_slice(&numbers[range(numbers.len() / other.len())]);
            }
            _ => unreachable!("kinds were compared"),
        }
        self.items.extend_from_slice(&other.items[range(1)]);
        self.parameters.extend_from_slice(&other.parameters[range(width)]);
        Ok(())
    }

    /// Zeros up to this many rows.
    pub(super) fn pad(&mut self, rows: usize, parameters: &[f32; PARAMETERS]) {
        let size: usize = self.shape.iter().product();
        match &mut self.inputs {
            Values::U8(values) => values.resize(rows * size, 0),
            Values::F32(values) => values.resize(rows * size, 0.0),
        }
        match &mut self.targets {
            Targets::Classes(classes) => classes.resize(rows, 0),
            Targets::Masks(masks) => masks.resize(rows * pixels(&self.shape), 0),
            Targets::Numbers(numbers) => numbers.resize(rows * (numbers.len() / self.items.len()), 0.0),
            Targets::Mixed { .. } => unreachable!("rows are mixed when they are a batch"),
        }
        if !self.parameters.is_empty() {
            while self.parameters.len() < rows * PARAMETERS {
                self.parameters.extend(parameters);
            }
        }
    }

    fn begin(&mut self, shape: &[usize], is_bytes: bool, kind: Kind) {
        self.shape.clear();
        self.shape.extend_from_slice(shape);
        if is_bytes != matches!(self.inputs, Values::U8(_)) {
            self.inputs = if is_bytes { Values::U8(Vec::new()) } else { Values::F32(Vec::new()) };
        }
        let none = match kind {
            Kind::Class => Targets::Classes(Vec::new()),
            Kind::Mask => Targets::Masks(Vec::new()),
            Kind::Numbers(_) => Targets::Numbers(Vec::new()),
        };
        // what is of its kind has memory
        if std::mem::discriminant(&self.targets) != std::mem::discriminant(&none) {
            self.targets = none;
        }
    }

    fn reserve(&mut self, rows: usize, parameters: usize) {
        let size: usize = self.shape.iter().product();
        match &mut self.inputs {
            Values::U8(values) => values.reserve(rows * size),
            Values::F32(values) => values.reserve(rows * size),
        }
        match &mut self.targets {
            Targets::Masks(masks) => masks.reserve(rows * pixels(&self.shape)),
            Targets::Classes(classes) => classes.reserve(rows),
            // few, and their width is not known yet
            Targets::Mixed { .. } | Targets::Numbers(_) => {}
        }
        self.items.reserve(rows);
        self.parameters.reserve(rows * parameters);
    }

    fn check_fits(&self, shape: &[usize], dtype: crate::DType, kind: Kind, item: Item) -> Result<()> {
        let own_dtype = self.inputs.dtype();
        let own_kind = if self.is_empty() { kind } else { Kind::of_all(&self.targets, self.len()) };
        if self.shape == shape && own_dtype == dtype && own_kind == kind {
            return Ok(());
        }
        let say = |shape: &[usize], dtype, kind: Kind| format!("{dtype} {shape:?} with a {kind}");
        Err(Error::Shape(format!(
            "samples {} and {} do not fit in one batch: {} and {}; resize pictures of different sizes",
            self.items.last().map_or(0, |item| item.sample),
            item.sample,
            say(&self.shape, own_dtype, own_kind),
            say(shape, dtype, kind),
        )))
    }
}

/// What a sample's target is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Class,
    Mask,
    /// So many.
    Numbers(usize),
}

impl Kind {
    fn of(target: &Target) -> Self {
        match target {
            Target::Class(_) => Self::Class,
            Target::Mask(_) => Self::Mask,
            Target::Numbers(numbers) => Self::Numbers(numbers.len()),
        }
    }

    /// That of all of these, which are of so many rows.
    fn of_all(targets: &Targets, rows: usize) -> Self {
        match targets {
            Targets::Classes(_) | Targets::Mixed { .. } => Self::Class,
            Targets::Masks(_) => Self::Mask,
            Targets::Numbers(numbers) => Self::Numbers(numbers.len() / rows.max(1)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class => f.write_str("class"),
            Self::Mask => f.write_str("mask"),
            Self::Numbers(count) => write!(f, "target of {}", counted(*count, "number")),
        }
    }
}

/// Pixels of a picture of this shape.
fn pixels(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}
