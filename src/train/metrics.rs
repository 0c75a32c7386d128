//! What training and evaluation count on the device, until somebody reads it.

use std::collections::VecDeque;

use crate::data::Batch;
use crate::device::Device;
use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

/// Most training steps whose metrics stay on the device until they are read.
const MOST_UNREAD: usize = 64;

/// What one training step gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepResult {
    /// Mean loss of the batch.
    pub loss: f32,
    /// Samples classified correctly.
    pub correct: usize,
    /// Samples in the batch.
    pub samples: usize,
}

impl StepResult {
    /// The part of the samples that was classified correctly.
    pub(super) fn accuracy(&self) -> f32 {
        self.correct as f32 / self.samples as f32
    }
}

/// Metrics of the last steps, kept on the device so that a step need not wait for them.
pub(super) struct Ring {
    loss: Var,
    correct: Var,
    /// Where the next step puts its own. Like all state it stays where it is if a step does not count.
    position: Var,
    /// The batches of the steps that have not been read, kept for finding what went wrong in one of them.
    unread: VecDeque<Batch>,
    /// Entries read so far.
    read: usize,
    len: usize,
}

/// Sums over the held-out samples.
pub(super) struct Evaluation {
    loss: Var,
    correct: Var,
}

impl Ring {
    /// For this many steps, or the most that there may be.
    pub(super) fn new(steps: usize, device: &Device) -> Result<Self> {
        let len = steps.min(MOST_UNREAD);
        let zeros = || Tensor::zeros([len], device);
        Ok(Self {
            loss: Var::state("metrics.loss", &zeros())?,
            correct: Var::state("metrics.correct", &zeros())?,
            position: Var::state("metrics.position", &Tensor::scalar(0_i32, device))?,
            unread: VecDeque::new(),
            read: 0,
            len,
        })
    }

    /// Steps whose results have not been read.
    pub(super) fn unread(&self) -> usize {
        self.unread.len()
    }

    /// True if it must be read before the next step.
    pub(super) fn is_full(&self) -> bool {
        self.unread.len() == self.len
    }

    /// A step was handed to the device with this batch.
    pub(super) fn handed_over(&mut self, batch: Batch) {
        self.unread.push_back(batch);
    }

    /// Once those that counted are read: the number of the step that did not, and its batch.
    pub(super) fn take_stopped(&mut self) -> Option<(u64, Batch)> {
        Some((self.read as u64 + 1, self.unread.pop_front()?))
    }

    /// What a traced step calls to put down its loss and its number of correct answers.
    pub(super) fn recorder(&self) -> impl Fn(&Tensor, &Tensor) + Send + 'static {
        let (loss, correct, position, len) = (self.loss.clone(), self.correct.clone(), self.position.clone(), self.len);
        move |step_loss, step_correct| {
            let now = position.tensor();
            let here = Tensor::arange(len, loss.device()).eq(&now);
            let put = |ring: &Var, value: &Tensor| {
                let value = value.detach().expand([len]);
                ring.assign(&here.where_(&value, ring.tensor()));
            };
            put(&loss, step_loss);
            put(&correct, step_correct);
            let next = &now + 1;
            position.assign(&next.eq(len as i32).where_(now.zeros_like(), &next));
        }
    }

    /// The first `count` results that were not read yet.
    pub(super) fn read(&mut self, count: usize) -> Result<Vec<StepResult>> {
        let (loss, correct) = (self.loss.tensor().to_vec::<f32>()?, self.correct.tensor().to_vec::<f32>()?);
        let first = self.read;
        self.read += count;
        let at = |number: usize| (first + number) % self.len;
        let result = |(number, batch): (usize, Batch)| StepResult {
            loss: loss[at(number)],
            correct: correct[at(number)] as usize,
            samples: batch.samples,
        };
        Ok(self.unread.drain(..count).enumerate().map(result).collect())
    }

    /// How many of the unread steps counted, once it is known that the last one did not.
    pub(super) fn counted(&self) -> Result<usize> {
        let position = self.position.tensor().item::<i32>()? as usize;
        Ok((position + self.len - self.read % self.len) % self.len)
    }
}

impl Evaluation {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let zero = |name| Var::state(name, &Tensor::zeros([], device));
        Ok(Self { loss: zero("evaluation.loss")?, correct: zero("evaluation.correct")? })
    }

    pub(super) fn vars(&self) -> [Var; 2] {
        [self.loss.clone(), self.correct.clone()]
    }

    pub(super) fn take(&self) -> Result<(f32, usize)> {
        let (loss, correct) = (self.loss.tensor().item::<f32>()?, self.correct.tensor().item::<f32>()?);
        for var in [&self.loss, &self.correct] {
            var.set(&Tensor::zeros([], var.device()))?;
        }
        Ok((loss, correct as usize))
    }
}
