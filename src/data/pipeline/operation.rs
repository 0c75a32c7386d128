//! What is done to one sample.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::order::Item;
use super::{On, Resize};
use crate::data::augment::{self, Augment, PARAMETERS, Turn};
use crate::data::cache::Store;
use crate::data::files;
use crate::data::{Dataset, Description, Goal, HostTimes, IGNORED, Random, Sample, Target, Values};
use crate::error::{Error, Result};
use crate::units::counted;

pub(super) type Map = dyn Fn(&mut Sample, &mut Random) -> Result<()> + Send + Sync;
pub(super) type Filter = dyn Fn(&Sample) -> bool + Send + Sync;

/// A step of a sample's way.
#[derive(Clone)]
pub(super) enum Operation {
    Map(Arc<Map>),
    Filter(Arc<Filter>),
    Resize(Resize),
    Cache(Arc<Store>),
}

/// The place of the augmentation among the operations, for its random numbers.
const AUGMENT: u64 = u64::MAX;

/// All that is done to a sample, from the data set to the batch.
pub(crate) struct Recipe {
    pub(super) data: Arc<dyn Dataset>,
    pub(super) operations: Vec<Operation>,
    pub(crate) augment: Augment,
    pub(crate) on: On,
    pub(crate) seed: u64,
    /// Of the samples at the end of the way.
    pub(crate) description: Description,
}

/// Why there is no sample.
pub(crate) enum Failure {
    /// It is broken; others may be whole.
    Sample(Error),
    /// Something that all samples need is.
    Stream(Error),
}

/// Memory that is used for one sample after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) sample: Sample,
    /// What is random in its augmentation.
    pub(crate) parameters: [f32; PARAMETERS],
    augment: augment::Scratch,
}

impl Recipe {
    /// Opens what has to be open.
    pub(super) fn prepare(&self) -> Result<()> {
        for (place, operation) in self.operations.iter().enumerate() {
            if let Operation::Cache(store) = operation {
                store.prepare(&self.data.identity(), self.data.len(), &self.before(place))?;
            }
        }
        Ok(())
    }

    /// What is done before this place, in words.
    fn before(&self, place: usize) -> String {
        let words = self.operations[..place].iter().map(|operation| match operation {
            // which may be random
            Operation::Map(_) => format!("map with seed {}", self.seed),
            Operation::Filter(_) => "filter".into(),
            Operation::Resize(Resize { height, width }) => format!("resize {height}x{width}"),
            Operation::Cache(_) => "cache".into(),
        });
        words.collect::<Vec<String>>().join(", ")
    }

    /// Makes the sample; false if it is filtered out.
    pub(crate) fn make(
        &self,
        item: Item,
        epoch: u64,
        scratch: &mut Scratch,
        times: &mut HostTimes,
    ) -> Result<bool, Failure> {
        let mut clock = Instant::now();
        let mut lap = |stage: &mut Duration| {
            let now = Instant::now();
            *stage += now - std::mem::replace(&mut clock, now);
        };
        let (index, sample) = (item.sample as usize, &mut scratch.sample);
        let _memory = files::keep();
        let cached = |operation: &Operation| matches!(operation, Operation::Cache(_));
        // what is cached is the same in every epoch, whichever comes first
        let frozen = self.operations.iter().rposition(cached).map_or(0, |place| place + 1);
        let start = self.load(index, sample)?;
        lap(&mut times.load);
        for (place, operation) in self.operations.iter().enumerate().skip(start) {
            match operation {
                Operation::Map(map) => {
                    let (epoch, draw) = if place < frozen { (0, 0) } else { (epoch, item.draw) };
                    let key = [self.seed, epoch, item.sample, draw, place as u64];
                    map(sample, &mut Random::new(&key)).map_err(Failure::Sample)?;
                }
                Operation::Filter(filter) => {
                    if !filter(sample) {
                        lap(&mut times.augment);
                        return Ok(false);
                    }
                }
                Operation::Resize(resize) => resize.apply(sample).map_err(Failure::Sample)?,
                Operation::Cache(store) => {
                    lap(&mut times.augment);
                    store.put(index, sample).map_err(Failure::Stream)?;
                    lap(&mut times.load);
                }
            }
        }
        self.check(index, sample)?;
        if !self.augment.is_none() {
            self.check_picture(index, sample)?;
            let key = [self.seed, epoch, item.sample, item.draw, AUGMENT];
            let begins_turned = Random::new(&[self.seed, item.sample, AUGMENT]).chance(0.5);
            let turn = Turn { epoch, begins_turned };
            scratch.parameters = self.augment.draw(&mut Random::new(&key), turn, &sample.shape);
            if self.on == On::Host {
                self.augment.apply(sample, &scratch.parameters, &mut scratch.augment);
            }
        }
        if start < self.operations.len() || !self.augment.is_none() {
            lap(&mut times.augment);
        }
        Ok(true)
    }

    /// Reads the sample, from the last cache that has it or from the data set, and says which operation comes next.
    fn load(&self, index: usize, sample: &mut Sample) -> Result<usize, Failure> {
        for (place, operation) in self.operations.iter().enumerate().rev() {
            if let Operation::Cache(store) = operation
                && store.get(index, sample).map_err(Failure::Stream)?
            {
                return Ok(place + 1);
            }
        }
        self.data.get(index, sample).map_err(Failure::Sample)?;
        Ok(0)
    }

    /// Augmentation, on either side, is of bytes.
    fn check_picture(&self, index: usize, sample: &Sample) -> Result<(), Failure> {
        if sample.shape.len() == 3 && matches!(sample.input, Values::U8(_)) {
            return Ok(());
        }
        let (name, dtype, shape) = (&self.description.name, sample.input.dtype(), &sample.shape);
        Err(Failure::Stream(Error::Config(format!(
            "{name}: sample {index} is {dtype} {shape:?}, but only pictures of bytes, u8 [channels, height, width], are augmented: \
             make such of it, or omit augment"
        ))))
    }

    /// The input has as many numbers as its shape says, and the target fits.
    fn check(&self, index: usize, sample: &Sample) -> Result<(), Failure> {
        let wrong = |reason: String| Err(Failure::Sample(Error::format(&self.description.name, reason)));
        if sample.input.len() != sample.shape.iter().product::<usize>() {
            return wrong(format!("sample {index} has {} numbers for {:?}", sample.input.len(), sample.shape));
        }
        let (classes, regresses) = (self.description.classes.len(), self.description.goal == Goal::Regress);
        match (&sample.target, &sample.shape[..]) {
            (Target::Numbers(_), _) if !regresses => {
                wrong(format!("sample {index} has numbers to predict, not a class"))
            }
            (Target::Class(_) | Target::Mask(_), _) if regresses => {
                let has = if matches!(sample.target, Target::Mask(_)) { "mask" } else { "class" };
                wrong(format!("sample {index} has no numbers to predict, but a {has}"))
            }
            (Target::Mask(_), _) if self.description.goal == Goal::Classify => {
                wrong(format!("sample {index} has a mask, but the data set has a class for each sample"))
            }
            (Target::Class(_), _) if self.description.goal == Goal::Segment => {
                wrong(format!("sample {index} has a class, but the data set has a mask for each sample"))
            }
            (Target::Numbers(numbers), _) if numbers.len() != classes => {
                let has = counted(numbers.len(), "number");
                wrong(format!("sample {index} has {has} to predict, but the data set names {classes}"))
            }
            (Target::Numbers(numbers), _) => match numbers.iter().find(|number| !number.is_finite()) {
                None => Ok(()),
                Some(number) => wrong(format!("sample {index} has {number} to predict, which is not finite")),
            },
            (Target::Class(class), _) if *class as usize >= classes => {
                wrong(format!("sample {index} has label {class}, but labels lie in 0..{classes}"))
            }
            (Target::Mask(mask), &[_, height, width]) if mask.len() == height * width => {
                match mask.iter().position(|&class| class != IGNORED && usize::from(class) >= classes) {
                    None => Ok(()),
                    Some(pixel) => {
                        let (row, column, class) = (pixel / width, pixel % width, mask[pixel]);
                        wrong(format!(
                            "the mask of sample {index} has class {class} at row {row}, column {column}, but classes lie in 0..{classes} \
                             ({IGNORED}: not known)"
                        ))
                    }
                }
            }
            (Target::Mask(mask), _) => {
                wrong(format!("sample {index} has a mask of {} pixels for {:?}", mask.len(), sample.shape))
            }
            _ => Ok(()),
        }
    }
}
