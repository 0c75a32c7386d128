//! What devices that learn as one exchange in a step: parameters for the others, gradients for the first one.

use std::ops::Range;
use std::panic::resume_unwind;

use crate::autodiff::Gradients;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::optim::Layout;
use crate::runtime::{Forecast, Hyper, Signature, Step, Var, catch_non_finite};
use crate::shape::Shape;
use crate::stage::Stage;
use crate::tensor::Tensor;
use crate::timing::StageTimes;

/// An input of a step as bytes, as [`Step::run_bytes`] takes it.
type Bytes<'a> = (Shape, DType, &'a [u8]);

/// What a device makes of its part of a batch.
pub(crate) struct Part {
    /// Of the part's share of the loss.
    pub(crate) gradients: Gradients,
    /// What else is added up over the parts, f32 `[n]`.
    pub(crate) values: Tensor,
}

impl Part {
    /// As outputs of a step: the gradients of each group of an optimizer as one vector, and the values.
    pub(crate) fn outputs<'a>(&self, layouts: impl IntoIterator<Item = &'a Layout>) -> Vec<Tensor> {
        Stage::Update.scope(|| {
            let vectors = layouts.into_iter().map(|layout| layout.pack_gradients(&self.gradients));
            vectors.chain([self.values.clone()]).collect()
        })
    }

    /// The sum of such outputs of several devices, one device behind the other.
    pub(crate) fn sum(layouts: &[&Layout], outputs: &[Tensor]) -> Self {
        let each = layouts.len() + 1;
        let sum = |place: usize| {
            let of_devices = outputs.iter().skip(place).step_by(each).cloned();
            of_devices.reduce(|sum, next| sum + next).expect("there is a first device")
        };
        Stage::Update.scope(|| {
            let mut gradients = Gradients::new();
            for (place, layout) in layouts.iter().enumerate() {
                for (parameter, gradient) in layout.parameters().iter().zip(layout.split(&sum(place))) {
                    gradients.insert(parameter, &gradient);
                }
            }
            Self { gradients, values: sum(layouts.len()) }
        })
    }
}

/// A device beside the first one.
pub(crate) struct Other {
    device: Device,
    step: Step,
}

impl Other {
    /// A device that computes a part of each batch: `compute` is traced with its uploads, when its parameters and
    /// `others` have got the values that the first device has. Nothing halts here: what is not finite shows in the
    /// part, and is the first device's affair.
    pub(crate) fn new(
        device: &Device,
        layouts: Vec<Layout>,
        others: &[Var],
        mut compute: impl FnMut(&[Tensor]) -> Part + Send + 'static,
    ) -> Result<Self> {
        let followers = passed_on(&layouts, others);
        let step = Step::new(device, move |inputs| {
            let (values, uploads) = inputs.split_at(followers.len());
            for (follower, value) in followers.iter().zip(values) {
                follower.assign(value);
            }
            catch_non_finite(|| compute(uploads)).0.outputs(&layouts)
        })?;
        Ok(Self { device: device.clone(), step })
    }
}

/// The devices beside the first one, and what passes between them and it.
///
/// That goes through the host: before a step the others get the first one's parameters, behind it the first one their
/// gradients, as many bytes as the model has for each device and direction.
pub(crate) struct Exchange {
    others: Vec<Other>,
    /// Variables of the first device that the others follow.
    leaders: Vec<Var>,
    /// On the first device: from the outputs of all devices to the update.
    update: Step,
    /// The outputs of one device.
    outputs: Signature,
    /// The part of a step's loss that is each device's, the first one's first.
    shares: Vec<Hyper>,
    /// In which they get their work: the CPU backend last, as it keeps the thread until it is done.
    order: Vec<usize>,
}

impl Exchange {
    /// `update` takes the outputs of all devices that had a part, the first one's first, for the optimizer with these
    /// `layouts` and `values` values ([`Part::sum`]); each device weighs its loss by its share. The others follow its
    /// parameters, and `more`.
    pub(crate) fn new(
        others: Vec<Other>,
        update: Step,
        shares: Vec<Hyper>,
        layouts: &[&Layout],
        more: &[Var],
        values: usize,
    ) -> Self {
        let leaders = passed_on(layouts.iter().copied(), more);
        assert_eq!(shares.len(), others.len() + 1, "a share for each device");
        let shapes = layouts.iter().map(|layout| layout.arena().whole().shape().clone()).chain([[values].into()]);
        let outputs = shapes.map(|shape| (shape, DType::F32)).collect();
        let devices = [leaders[0].device()].into_iter().chain(others.iter().map(|other| &other.device));
        let is_cpu: Vec<bool> = devices.map(Device::is_cpu).collect();
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by_key(|&number| is_cpu[number]);
        Self { others, leaders, update, outputs, shares, order }
    }

    /// The rows of a batch of `rows` that are each device's. The first ones have one more where they do not divide, and
    /// the last ones none where there are not as many.
    pub(crate) fn rows(&self, rows: usize) -> Vec<Range<usize>> {
        let devices = self.shares.len();
        let start = |number: usize| (rows * number).div_ceil(devices);
        (0..devices).map(|number| start(number)..start(number + 1)).collect()
    }

    /// Plans and compiles the steps for batches of so many rows, on all devices at once; `first` computes the first
    /// one's part.
    pub(crate) fn prepare(
        &mut self,
        first: &mut Step,
        rows: usize,
        signature: &(dyn Fn(usize) -> Signature + Sync),
    ) -> Result<()> {
        let ranges = self.rows(rows);
        let followed = self.followed();
        first.prepare(&signature(ranges[0].len()))?;
        std::thread::scope(|scope| {
            let parts = self.others.iter_mut().zip(&ranges[1..]).filter(|(_, range)| !range.is_empty());
            let others: Vec<_> = parts
                .map(|(other, range)| {
                    let inputs = [followed.clone(), signature(range.len())].concat();
                    scope.spawn(move || other.step.prepare(&inputs).map(drop))
                })
                .collect();
            let update = self.update.prepare(&inputs_of_update(&self.outputs, others.len() + 1)).map(drop);
            let prepared = others.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            prepared.chain([update]).collect()
        })
    }

    /// One step on these batches together, each with inputs of as many rows, of which each device gets its own; what the
    /// update gives.
    pub(crate) fn run(&mut self, first: &mut Step, batches: &[Vec<Bytes<'_>>]) -> Result<Vec<Tensor>> {
        let leaders = read(self.leaders.iter().map(Var::tensor))?;
        let rows = |batch: &Vec<Bytes<'_>>| batch[0].0[0];
        let all: usize = batches.iter().map(rows).sum();
        let mut parts = vec![Vec::new(); self.shares.len()];
        for batch in batches {
            let ranges = self.rows(rows(batch));
            for &number in &self.order {
                let range = &ranges[number];
                if range.is_empty() {
                    continue;
                }
                self.shares[number].set(range.len() as f32 / all as f32);
                let uploads: Vec<_> = batch.iter().map(|input| rows_of(input, range)).collect();
                let outputs = match number.checked_sub(1) {
                    None => first.run_bytes(&uploads)?,
                    Some(other) => {
                        let followed = self.leaders.iter().zip(&leaders);
                        let followed = followed.map(|(var, bytes)| (var.shape().clone(), var.dtype(), &bytes[..]));
                        self.others[other].step.run_bytes(&followed.chain(uploads).collect::<Vec<_>>())?
                    }
                };
                let sum = &mut parts[number];
                *sum = match sum.is_empty() {
                    true => outputs,
                    false => sum.iter().zip(&outputs).map(|(sum, output)| sum + output).collect(),
                };
            }
        }
        let mut parts = parts.into_iter();
        let mut inputs = parts.next().expect("a first device");
        let others: Vec<Tensor> = parts.flatten().collect();
        let device = self.leaders[0].device();
        for (output, bytes) in others.iter().zip(read(others.iter().cloned())?) {
            inputs.push(Tensor::from_bytes(&bytes, output.shape().clone(), output.dtype(), device)?);
        }
        self.update.run(&inputs)
    }

    /// The step that updates.
    pub(crate) fn update(&mut self) -> &mut Step {
        &mut self.update
    }

    /// The devices beside the first one.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Device> {
        self.others.iter().map(|other| &other.device)
    }

    /// What each of the others takes of its memory for batches of so many rows.
    pub(crate) fn forecasts(
        &mut self,
        rows: &[usize],
        signature: &dyn Fn(usize) -> Signature,
    ) -> Result<Vec<Forecast>> {
        let followed = self.followed();
        let ranges: Vec<_> = rows.iter().map(|&rows| self.rows(rows)).collect();
        let forecast = |(number, other): (usize, &mut Other)| {
            let own = ranges.iter().map(|ranges| ranges[number + 1].len()).filter(|&rows| rows > 0);
            let signatures: Vec<_> = own.map(|rows| [followed.clone(), signature(rows)].concat()).collect();
            other.step.forecast(&signatures)
        };
        self.others.iter_mut().enumerate().map(forecast).collect()
    }

    /// What the update takes of the first one's memory, beside the parameters.
    pub(crate) fn forecast_of_update(&mut self) -> Result<Forecast> {
        let forecast = self.update.forecast(&[inputs_of_update(&self.outputs, self.shares.len())])?;
        let arenas = self.outputs.iter().rev().skip(1).map(|(shape, dtype)| shape.bytes(*dtype)).sum();
        Ok(Forecast { state_bytes: forecast.state_bytes.saturating_sub(arenas), model_bytes: 0, ..forecast })
    }

    /// What each of the others did since the last call, by stage.
    pub(crate) fn stage_times(&mut self) -> Vec<(&str, StageTimes)> {
        let each = self.others.iter_mut();
        each.map(|Other { device, step }| (device.info().selector.as_str(), step.stage_times())).collect()
    }

    fn followed(&self) -> Signature {
        self.leaders.iter().map(|var| (var.shape().clone(), var.dtype())).collect()
    }
}

/// What passes from the first device to the others: the parameters, group by group, and these.
fn passed_on<'a>(layouts: impl IntoIterator<Item = &'a Layout>, more: &[Var]) -> Vec<Var> {
    let parameters = layouts.into_iter().map(|layout| layout.arena().whole().clone());
    parameters.chain(more.iter().cloned()).collect()
}

/// The outputs of so many devices.
fn inputs_of_update(outputs: &Signature, devices: usize) -> Signature {
    (0..devices).flat_map(|_| outputs.iter().cloned()).collect()
}

/// Some rows of an input.
fn rows_of<'a>((shape, dtype, bytes): &Bytes<'a>, rows: &Range<usize>) -> Bytes<'a> {
    let mut part = shape.to_vec();
    let all = std::mem::replace(&mut part[0], rows.len());
    let row = bytes.len() / all.max(1);
    (part.into(), *dtype, &bytes[rows.start * row..rows.end * row])
}

/// The bytes of tensors, all asked for before one is waited for.
fn read(tensors: impl Iterator<Item = Tensor>) -> Result<Vec<Vec<u8>>> {
    let reading = tensors.map(|tensor| tensor.begin_read()).collect::<Result<Vec<_>>>()?;
    reading.into_iter().map(pollster::block_on).collect()
}
