//! Worker threads that load, augment and batch ahead of the device.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

use super::{Augment, Batch, Dataset, HostTimes, Permutation, Sample, Target, Targets, Values};

/// In which order samples come, and what happens to a last batch that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Shuffled anew in each epoch by (seed, epoch); a last, smaller batch is kept as it is.
    Shuffled {
        /// Decides the order and the augmentation.
        seed: u64,
    },
    /// As they lie; a last, smaller batch is padded with zeros to full size, and its mask says which rows count.
    Sequential,
}

/// How batches are made.
#[derive(Clone, Copy, Debug)]
pub struct LoaderOptions {
    /// Samples in a batch; at least 1.
    pub batch_size: usize,
    /// The order of the samples.
    pub order: Order,
    /// What is done to each picture.
    pub augment: Augment,
    /// Threads; at least 1. Changes nothing but the speed.
    pub workers: usize,
    /// Batches that each worker may have ready before it waits.
    pub ahead: usize,
    /// Passes over the data, one after the other.
    pub epochs: usize,
}

type Produced = Result<Batch>;

/// Batches of a data set, made ahead of their use by worker threads, in an order that does not depend on them.
///
/// Worker `w` of `n` makes the batches `w`, `w + n`, `w + 2n`, … and hands them over through a bounded queue of its own;
/// the consumer goes round the queues. No lock is shared, and the memory ahead is bounded by `workers * (ahead + 1)`.
///
/// ```
/// use std::sync::Arc;
///
/// use brasa::data::{Augment, Loader, LoaderOptions, Order, digits};
///
/// let data = digits()?;
/// let loader = Loader::new(
///     Arc::new(data.train),
///     LoaderOptions {
///         batch_size: 64,
///         order: Order::Shuffled { seed: 1 },
///         augment: Augment::default(),
///         workers: 2,
///         ahead: 4,
///         epochs: 1,
///     },
/// );
/// for batch in loader.take(3) {
///     assert_eq!(batch?.shape, [64, 1, 8, 8]);
/// }
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Loader {
    queues: Vec<Receiver<Produced>>,
    workers: Vec<JoinHandle<()>>,
    next: usize,
    batches: usize,
}

impl Loader {
    /// Starts the workers on `dataset`.
    ///
    /// # Panics
    /// If `batch_size` or `workers` is 0.
    #[track_caller]
    pub fn new(dataset: Arc<dyn Dataset>, options: LoaderOptions) -> Self {
        assert!(options.batch_size > 0 && options.workers > 0, "a loader needs a batch size and a worker");
        let batches = Self::batches_per_epoch(dataset.len(), options.batch_size) * options.epochs;
        let (queues, workers) = (0..options.workers.min(batches))
            .map(|first| {
                let (sender, queue) = sync_channel(options.ahead);
                let dataset = Arc::clone(&dataset);
                let worker = std::thread::Builder::new()
                    .name(format!("brasa-loader-{first}"))
                    .spawn(move || work(dataset.as_ref(), options, (first..batches).step_by(options.workers), &sender))
                    .expect("the system starts a thread");
                (queue, worker)
            })
            .unzip();
        Self { queues, workers, next: 0, batches }
    }

    /// Batches in one pass over `samples` samples.
    pub const fn batches_per_epoch(samples: usize, batch_size: usize) -> usize {
        samples.div_ceil(batch_size)
    }
}

impl Iterator for Loader {
    type Item = Produced;

    /// The next batch; waits for it if it is not ready. `None` after the last one.
    fn next(&mut self) -> Option<Produced> {
        if self.next == self.batches {
            return None;
        }
        let worker = self.next % self.queues.len();
        self.next += 1;
        let produced = self.queues[worker].recv().expect("a worker makes all of its batches");
        if produced.is_err() {
            // Nothing that follows would be complete.
            self.next = self.batches;
        }
        Some(produced)
    }
}

impl Drop for Loader {
    /// Tells the workers to stop, by hanging up, and waits for them.
    fn drop(&mut self) {
        self.queues.clear();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so, and its batch was missed already.
            let _ = worker.join();
        }
    }
}

/// Makes the batches with these numbers until all are made, one fails, or nobody listens.
fn work(
    dataset: &dyn Dataset,
    options: LoaderOptions,
    numbers: impl Iterator<Item = usize>,
    to: &SyncSender<Produced>,
) {
    let mut scratch = Scratch::default();
    for number in numbers {
        let produced = make(dataset, options, number, &mut scratch);
        let failed = produced.is_err();
        if to.send(produced).is_err() || failed {
            return;
        }
    }
}

/// Memory that a worker uses again for each picture.
#[derive(Default)]
struct Scratch {
    sample: Sample,
    augment: Vec<u8>,
}

fn make(dataset: &dyn Dataset, options: LoaderOptions, number: usize, scratch: &mut Scratch) -> Produced {
    let LoaderOptions { batch_size, order, augment, .. } = options;
    let (len, of) = (dataset.len(), dataset.description());
    let size: usize = of.shape.iter().product();
    let per_epoch = Loader::batches_per_epoch(len, batch_size);
    let (epoch, first) = (number / per_epoch, number % per_epoch * batch_size);
    let samples = batch_size.min(len - first);
    let mut times = HostTimes::default();
    let mut clock = Instant::now();
    let mut lap = |stage: &mut Duration| {
        let now = Instant::now();
        *stage += now - std::mem::replace(&mut clock, now);
    };

    let permutation = match order {
        Order::Shuffled { seed } => Some((seed, Permutation::new(len, &[seed, epoch as u64]))),
        Order::Sequential => None,
    };
    let rows = if permutation.is_some() { samples } else { batch_size };
    let (mut pixels, mut labels) = (Vec::with_capacity(rows * size), Vec::with_capacity(rows));
    lap(&mut times.batch);
    for position in first..first + samples {
        let index = permutation.as_ref().map_or(position, |(_, permutation)| permutation.get(position));
        dataset.get(index, &mut scratch.sample)?;
        let (Values::U8(picture), Target::Class(label)) = (&mut scratch.sample.input, &scratch.sample.target) else {
            return Err(Error::format(&of.name, format!("sample {index} is no picture with a class")));
        };
        if *label as usize >= of.classes.len() {
            let message = format!("sample {index} has label {label}, but labels lie in 0..{}", of.classes.len());
            return Err(Error::format(&of.name, message));
        }
        lap(&mut times.load);
        if let (Some((seed, _)), true, &[c, h, w]) = (&permutation, augment != Augment::None, &of.shape[..]) {
            augment.apply(picture, [c, h, w], &[*seed, epoch as u64, index as u64], &mut scratch.augment);
            lap(&mut times.augment);
        }
        pixels.extend_from_slice(picture);
        labels.push(*label);
        lap(&mut times.batch);
    }
    pixels.resize(rows * size, 0);
    labels.resize(rows, 0);
    let mut weights = vec![1.0; samples];
    weights.resize(rows, 0.0);
    let mut shape = vec![rows];
    shape.extend(&of.shape);
    lap(&mut times.batch);
    let (inputs, targets) = (Values::U8(pixels), Targets::Classes(labels));
    Ok(Batch { epoch, samples, shape, inputs, targets, weights, times })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Description, Goal, InMemory, Normalization};

    /// `len` samples of two pixels: their number, and 100.
    fn counted(len: u8) -> Arc<dyn Dataset> {
        let pixels = (0..len).flat_map(|i| [i, 100]).collect();
        let labels = (0..len).map(|i| u32::from(i % 3)).collect();
        let classes = ["a", "b", "c"].map(String::from).to_vec();
        Arc::new(InMemory::new("counted", classes, [1, 1, 2], Normalization::default(), pixels, labels))
    }

    fn options(order: Order, workers: usize) -> LoaderOptions {
        LoaderOptions { batch_size: 4, order, augment: Augment::None, workers, ahead: 2, epochs: 3 }
    }

    fn all(loader: Loader) -> Vec<Batch> {
        let timeless = |batch| Batch { times: HostTimes::default(), ..batch };
        loader.map(|produced| timeless(produced.expect("good data"))).collect()
    }

    fn pixels(batch: &Batch) -> &[u8] {
        batch.inputs.as_bytes()
    }

    #[test]
    fn the_number_of_workers_changes_nothing() {
        for augment in [Augment::None, Augment::Shift] {
            let run = |workers| {
                let options = LoaderOptions { augment, ..options(Order::Shuffled { seed: 5 }, workers) };
                all(Loader::new(counted(11), options))
            };
            let one = run(1);
            assert_eq!(one.len(), 9);
            for workers in [2, 3, 20] {
                assert_eq!(one, run(workers));
            }
        }
    }

    #[test]
    fn each_epoch_has_each_sample_once_in_its_own_order() {
        let batches = all(Loader::new(counted(11), options(Order::Shuffled { seed: 5 }, 2)));
        let mut orders = Vec::new();
        for epoch in 0..3 {
            let of_epoch = batches.iter().filter(|batch| batch.epoch == epoch);
            let order: Vec<u8> = of_epoch.flat_map(|batch| pixels(batch).iter().copied().step_by(2)).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..11).collect::<Vec<_>>());
            orders.push(order);
        }
        assert_ne!(orders[0], orders[1]);
        assert_ne!(orders[1], orders[2]);
        let sizes: Vec<_> = batches[..3].iter().map(Batch::rows).collect();
        assert_eq!(sizes, [4, 4, 3], "a last, smaller batch is kept");
        for batch in &batches {
            let own: Vec<_> = pixels(batch).iter().step_by(2).map(|&pixel| u32::from(pixel % 3)).collect();
            assert_eq!(batch.targets, Targets::Classes(own), "labels stay with their pictures");
        }
    }

    #[test]
    fn evaluation_pads_and_masks() {
        let batches = all(Loader::new(counted(5), LoaderOptions { epochs: 1, ..options(Order::Sequential, 1) }));
        assert_eq!(batches.len(), 2);
        assert_eq!(pixels(&batches[0]), [0, 100, 1, 100, 2, 100, 3, 100]);
        assert_eq!((batches[1].samples, batches[1].rows()), (1, 4));
        assert_eq!(pixels(&batches[1]), [4, 100, 0, 0, 0, 0, 0, 0]);
        assert_eq!(batches[1].weights, [1.0, 0.0, 0.0, 0.0]);
    }

    /// Data whose third sample cannot be read, or has a label that is too large.
    struct Broken(bool, Description);

    impl Broken {
        fn new(unreadable: bool) -> Self {
            let classes = vec!["a".into(), "b".into()];
            let (name, shape, normalization) = ("broken".into(), vec![1, 1, 1], Normalization::default());
            Self(unreadable, Description { name, goal: Goal::Classify, classes, shape, normalization })
        }
    }

    impl Dataset for Broken {
        fn description(&self) -> &Description {
            &self.1
        }
        fn len(&self) -> usize {
            8
        }
        fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
            sample.set_picture([1, 1, 1]);
            sample.target = Target::Class(if index == 2 { 2 } else { 0 });
            if self.0 && index == 2 { Err(Error::format("broken", "sample 2 is damaged")) } else { Ok(()) }
        }
    }

    #[test]
    fn bad_samples_are_errors_and_end_the_data() {
        for (unreadable, message) in [(true, "sample 2 is damaged"), (false, "sample 2 has label 2")] {
            let options = LoaderOptions { batch_size: 2, ..options(Order::Sequential, 2) };
            let mut loader = Loader::new(Arc::new(Broken::new(unreadable)), options);
            assert!(matches!(loader.next(), Some(Ok(_))));
            let error = loader.next().expect("a second batch").expect_err("it is damaged");
            assert!(error.to_string().contains(message), "{error}");
            assert!(loader.next().is_none());
        }
    }

    #[test]
    fn dropping_a_loader_stops_its_workers() {
        let options = LoaderOptions { epochs: 1_000_000, ..options(Order::Shuffled { seed: 1 }, 3) };
        let mut loader = Loader::new(counted(11), options);
        assert!(loader.next().is_some());
        drop(loader);
    }
}
