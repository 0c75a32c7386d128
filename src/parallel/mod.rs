//! Data parallelism: several devices that train one model.
//!
//! Each of them has a copy of the model and computes the gradients of its part of a batch; the first one adds them up in
//! the order of the devices, and updates. What is learned is what one device learns from whole batches, but for the
//! order of sums, and for what a layer takes from a batch as a whole: batch norms find mean and variance in each
//! device's part, and keep those of the first one's, as PyTorch's `DistributedDataParallel` does.
//!
//! The program does it with `--device gpu:0,gpu:1`, or `gpus` for all there are; so does a
//! [`Trainer`](crate::train::Trainer) with such a [`Config::device`](crate::train::Config::device). In a loop of one's
//! own it is a [`DataParallel`]. It pays off where a step computes for longer than it takes to bring the model's bytes to
//! the host and back, which is what devices exchange in each step.

mod exchange;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

pub(crate) use exchange::{Exchange, Other, Part};

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::nn::{self, Variables};
use crate::optim::{Layout, Optimizer};
use crate::runtime::{Hyper, Step, Var, check_finite, check_input};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// A model that several devices train together.
///
/// ```
/// use brasa::nn::{Init, Linear, Module};
/// use brasa::optim::{SGD, SGDOptions};
/// use brasa::parallel::DataParallel;
/// use brasa::{Device, Tensor};
///
/// let devices = [Device::cpu(), Device::cpu().reopen()?]; // or Device::gpu(0)?, Device::gpu(1)?
/// let mut together = DataParallel::new(
///     &devices,
///     |device| Linear::new(3, 1, &Init::new(device, 1)),
///     |parameters| SGD::new(parameters, SGDOptions { learning_rate: 0.1, ..SGDOptions::default() }),
///     |model, inputs| (model.forward(&inputs[0]) - &inputs[1]).square().mean(),
/// )?;
/// let x = Tensor::linspace(-1.0, 1.0, 24, &devices[0]).reshape([8, 3]);
/// let y = x.sum_keepdim([1]);
/// let first: f32 = together.step(&[x.clone(), y.clone()])?.item()?;
/// for _ in 0..50 {
///     together.step(&[x.clone(), y.clone()])?;
/// }
/// together.ensure_finite()?;
/// assert!(together.step(&[x, y])?.item::<f32>()? < 0.1 * first);
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct DataParallel<M> {
    model: Arc<M>,
    optimizer: Arc<dyn Optimizer>,
    gradients: Step,
    exchange: Exchange,
}

impl<M> fmt::Debug for DataParallel<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataParallel").finish_non_exhaustive()
    }
}

impl<M: Variables + Send + Sync + 'static> DataParallel<M> {
    /// A model on each of `devices`, made by `model`; all begin with the values that the first one has. `optimizer` is
    /// made of its parameters, and `loss` is the mean loss over the rows of its inputs, f32 `[]`: it is traced on each
    /// device with its part of the inputs of [`step`](Self::step).
    ///
    /// What is random on a device depends on its own seed ([`runtime::seed`](crate::runtime::seed)): give each another
    /// one where the model has dropout.
    ///
    /// # Errors
    /// If a model or the optimizer cannot be made, or the models have not the same variables.
    ///
    /// # Panics
    /// If there are no devices, or one is there twice.
    #[track_caller]
    pub fn new<O: Optimizer + 'static>(
        devices: &[Device],
        mut model: impl FnMut(&Device) -> Result<M>,
        optimizer: impl FnOnce(&[Var]) -> Result<O>,
        loss: impl Fn(&M, &[Tensor]) -> Tensor + Clone + Send + 'static,
    ) -> Result<Self> {
        let [first, others @ ..] = devices else { panic!("DataParallel: no devices") };
        for (number, device) in devices.iter().enumerate() {
            assert!(!devices[..number].contains(device), "DataParallel: {} is named twice", device.name());
        }
        let own = Arc::new(model(first)?);
        let optimizer: Arc<dyn Optimizer> = Arc::new(optimizer(&own.parameters())?);
        let part = |model: Arc<M>, share: Hyper| {
            let loss = loss.clone();
            move |inputs: &[Tensor]| {
                let loss = loss(&model, inputs);
                let part = &loss * share.tensor(loss.device());
                Part { gradients: part.backward(), values: part.detach().reshape([1]) }
            }
        };
        let shares: Vec<Hyper> = devices.iter().map(|_| Hyper::new(1.0)).collect();
        let other = |(device, share): (&Device, &Hyper)| {
            let copy = Arc::new(model(device)?);
            nn::load_state(copy.as_ref(), &nn::state(own.as_ref()))?;
            let layouts = Layout::beside("copies", &optimizer.layouts(), copy.as_ref())?;
            Other::new(device, layouts, &[], part(copy, share.clone()))
        };
        let others = others.iter().zip(&shares[1..]).map(other).collect::<Result<_>>()?;
        let updating = Arc::clone(&optimizer);
        let update = Step::new(first, move |outputs| {
            let Part { gradients, values } = Part::sum(&updating.layouts(), outputs);
            check_finite(&[values.node().clone()]);
            updating.update(&gradients);
            vec![values.squeeze(0)]
        })?;
        let (laid_out, compute) = (Arc::clone(&optimizer), part(Arc::clone(&own), shares[0].clone()));
        let gradients = Step::new(first, move |inputs| compute(inputs).outputs(laid_out.layouts()))?;
        let gradients = gradients.halting_with(&update);
        let layouts = optimizer.layouts();
        let exchange = Exchange::new(others, update, shares, &layouts, &[], 1);
        drop(layouts);
        Ok(Self { model: own, optimizer, gradients, exchange })
    }

    /// One step on inputs of as many rows (elements of the first axis), on whatever device they are; returns their mean
    /// loss, f32 `[]` on the first device. Each device gets about as many rows.
    ///
    /// # Errors
    /// If a device fails.
    ///
    /// # Panics
    /// If there are no inputs or no rows, or one has another number of rows.
    #[track_caller]
    pub fn step(&mut self, inputs: &[Tensor]) -> Result<Tensor> {
        let bytes = inputs.iter().map(|input| pollster::block_on(input.to_bytes())).collect::<Result<Vec<_>>>()?;
        let inputs = inputs.iter().zip(&bytes).map(|(input, bytes)| (input.shape(), input.dtype(), &bytes[..]));
        self.step_bytes(&inputs.collect::<Vec<_>>())
    }

    /// The same with inputs as bytes, as [`Step::run_bytes`] takes them: what
    /// [`Batch::uploads`](crate::data::Batch::uploads) gives.
    ///
    /// # Errors
    /// If a device fails, or an input has not as many bytes as it takes.
    ///
    /// # Panics
    /// As [`step`](Self::step).
    #[track_caller]
    pub fn step_bytes<S: Borrow<Shape>>(&mut self, inputs: &[(S, DType, &[u8])]) -> Result<Tensor> {
        let inputs: Vec<_> =
            inputs.iter().map(|(shape, dtype, bytes)| (shape.borrow().clone(), *dtype, *bytes)).collect();
        let rows = inputs.first().and_then(|(shape, ..)| shape.first().copied()).unwrap_or(0);
        assert!(rows > 0, "DataParallel: there are no rows");
        for (shape, dtype, bytes) in &inputs {
            assert!(shape.first() == Some(&rows), "DataParallel: {shape} beside an input of {rows} rows");
            check_input(shape, *dtype, bytes)?;
        }
        let outputs = self.exchange.run(&mut self.gradients, &[inputs])?;
        Ok(outputs.into_iter().next().expect("the update gives the loss"))
    }

    /// The model on the first device: what was learned so far.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// What updates it.
    pub fn optimizer(&self) -> &dyn Optimizer {
        self.optimizer.as_ref()
    }

    /// As [`Step::ensure_finite`]: fails if a loss or gradient was NaN or infinite, since when nothing was learned.
    ///
    /// # Errors
    /// [`Error::Halted`](crate::error::Error::Halted), or if the device fails.
    pub fn ensure_finite(&mut self) -> Result<()> {
        self.exchange.update().ensure_finite()
    }

    /// As [`Step::resume`].
    ///
    /// # Errors
    /// If the device fails.
    pub fn resume(&mut self) -> Result<()> {
        self.exchange.update().resume()
    }
}
