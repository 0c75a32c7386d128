//! Some of a data set's samples.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;

use super::permutation::hash;
use super::{Dataset, Description, Goal, Permutation, Sample, Split, Target};

/// Chooses what is held out to validate with. Fixed: runs that differ in their `--seed` are judged by the same samples.
const VALIDATION_KEY: u64 = 2004;

/// Some samples of another data set, by their numbers: PyTorch's `Subset`.
///
/// ```
/// use std::sync::Arc;
///
/// use brasa::data::{Dataset, Subset, digits};
///
/// let data = Arc::new(digits()?.test);
/// let few = Subset::of_classes(data, &["3", "8"])?.sampled(20, 1);
/// assert_eq!((few.len(), few.description().classes.as_slice()), (20, &["3".to_owned(), "8".to_owned()][..]));
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone)]
pub struct Subset {
    data: Arc<dyn Dataset>,
    indices: Vec<usize>,
    /// The number that each class has here, if classes are left out.
    classes: Option<Vec<Option<u32>>>,
    description: Description,
}

impl fmt::Debug for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.len(), self.data)
    }
}

impl Subset {
    /// The samples with these numbers, in this order.
    ///
    /// # Panics
    /// If there is no sample with one of them.
    #[track_caller]
    pub fn new(data: Arc<dyn Dataset>, indices: Vec<usize>) -> Self {
        let len = data.len();
        assert!(indices.iter().all(|&index| index < len), "Subset: a number is not below {len}");
        let description = Description { counts: None, ..data.description().clone() };
        Self { data, indices, classes: None, description }
    }

    /// The samples of these classes, which are numbered in this order from 0 on. Every sample is read once to see its
    /// class.
    ///
    /// # Errors
    /// If a sample cannot be read.
    ///
    /// # Panics
    /// If there is no class of one of these names, or samples have none.
    #[track_caller]
    pub fn of_classes<S: AsRef<str>>(data: Arc<dyn Dataset>, classes: &[S]) -> Result<Self> {
        let mut description = Description { counts: None, ..data.description().clone() };
        let classifies = description.goal == Goal::Classify;
        assert!(classifies, "Subset: the samples of {} have no class of their own", description.name);
        let mut numbers = vec![None; description.classes.len()];
        for (number, name) in classes.iter().map(AsRef::as_ref).enumerate() {
            let known = description.classes.iter().position(|class| class == name);
            let known = known.unwrap_or_else(|| panic!("Subset: {} has no class `{name}`", description.name));
            numbers[known] = Some(number as u32);
        }
        description.classes = classes.iter().map(|name| name.as_ref().to_owned()).collect();
        let (mut indices, mut sample) = (Vec::new(), Sample::default());
        for index in 0..data.len() {
            data.get(index, &mut sample)?;
            if matches!(sample.target, Target::Class(class) if numbers[class as usize].is_some()) {
                indices.push(index);
            }
        }
        Ok(Self { data, indices, classes: Some(numbers), description })
    }

    /// `count` of the samples (all, if there are no more), chosen by `seed`, in their order.
    #[must_use]
    pub fn sampled(mut self, count: usize, seed: u64) -> Self {
        let order = Permutation::new(self.indices.len(), &[seed]);
        let mut chosen: Vec<usize> = (0..count.min(self.indices.len())).map(|place| order.get(place)).collect();
        chosen.sort_unstable();
        self.indices = chosen.into_iter().map(|place| self.indices[place]).collect();
        self
    }
}

impl Split<Arc<dyn Dataset>> {
    /// The same with `percent` of the training part (rounded) as the validation part: a fixed choice, whatever classes
    /// they are of. It takes the place of one that is there.
    ///
    /// # Panics
    /// If `percent` is more than 100.
    #[must_use]
    #[track_caller]
    pub fn with_validation(self, percent: usize) -> Self {
        assert!(percent <= 100, "with_validation: {percent} %");
        let count = self.train.len();
        let order = Permutation::new(count, &[VALIDATION_KEY]);
        let mut is_held_out = vec![false; count];
        (0..(count * percent + 50) / 100).for_each(|place| is_held_out[order.get(place)] = true);
        let (held_out, kept) = (0..count).partition(|&index| is_held_out[index]);
        let some = |indices| Arc::new(Subset::new(Arc::clone(&self.train), indices)) as Arc<dyn Dataset>;
        Self { train: some(kept), validation: Some(some(held_out)), test: self.test }
    }
}

impl Dataset for Subset {
    fn description(&self) -> &Description {
        &self.description
    }

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn identity(&self) -> String {
        let mut words: Vec<u64> = self.indices.iter().map(|&index| index as u64).collect();
        words.extend(self.classes.iter().flatten().map(|class| class.map_or(u64::MAX, u64::from)));
        format!("{} (subset {:016x})", self.data.identity(), hash(&words))
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        self.data.get(self.indices[index], sample)?;
        if let (Some(classes), Target::Class(class)) = (&self.classes, &mut sample.target) {
            *class = classes[*class as usize].expect("samples of other classes are left out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{OpenOptions, open};

    #[test]
    fn what_is_held_out_to_validate_with_is_taken_from_the_training_part() {
        let data = open(&"digits".parse().expect("a name"), &OpenOptions::default()).expect("they are built in");
        let split = data.clone().with_validation(20);
        let sums = |part: &Arc<dyn Dataset>| -> Vec<(u64, Target)> {
            let mut sample = Sample::default();
            let sum = |index| {
                part.get(index, &mut sample).expect("in memory");
                let crate::data::Values::U8(bytes) = &sample.input else { panic!("pictures") };
                (hash(&bytes.iter().map(|&byte| byte.into()).collect::<Vec<_>>()), sample.target.clone())
            };
            (0..part.len()).map(sum).collect()
        };
        let validation = split.validation.as_ref().expect("it was asked for");
        assert_eq!([split.train.len(), validation.len(), split.test.len()], [1150, 288, 359]);
        let mut both = [sums(&split.train), sums(validation)].concat();
        let mut before = sums(&data.train);
        assert!(!before.starts_with(&sums(&split.train)), "those held out lie in between");
        for list in [&mut both, &mut before] {
            list.sort_by_key(|(sum, _)| *sum);
        }
        assert_eq!(both, before);
        let again = data.with_validation(20).validation.expect("it was asked for");
        assert_eq!(sums(&again), sums(validation));
    }
}
