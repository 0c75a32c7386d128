//! What one kind of optimizer is: its options, the state it keeps, and how a step moves the parameters.

use crate::autodiff::Gradients;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::nn::Variables;
use crate::runtime::{Arena, Var};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// The rule of an optimizer. Its options implement it; [`Grouped`](super::Grouped) does everything else.
///
/// A rule sees all parameters of a group as one vector, so that a rule of elementwise operations is one launch:
///
/// ```
/// use brasa::optim::{Grouped, NewState, Optimizer, Rule, Update};
/// use brasa::runtime::Var;
/// use brasa::{Device, Result, Tensor};
///
/// /// Follows the sign of the gradient.
/// #[derive(Clone, Copy)]
/// struct SignOptions { learning_rate: f32 }
///
/// impl Rule for SignOptions {
///     type State = ();
///     fn learning_rate(&self) -> f32 { self.learning_rate }
///     fn state(&self, _new: &mut NewState<'_>) -> Result<()> { Ok(()) }
///     fn update(&self, _state: &(), at: &Update<'_>) -> Tensor {
///         &at.parameters - at.gradient.sign() * &at.rate
///     }
/// }
///
/// # fn main() -> Result<()> {
/// let device = Device::cpu();
/// let p = Var::parameter("p", &Tensor::full([2], 1.0_f32, &device))?;
/// let optimizer = Grouped::new(&[p.clone()], SignOptions { learning_rate: 0.25 })?;
/// optimizer.update(&p.tensor().square().sum().backward());
/// assert_eq!(p.tensor().to_vec::<f32>()?, [0.75, 0.75]);
/// # Ok(())
/// # }
/// ```
pub trait Rule: Send + Sync {
    /// What a group keeps from step to step: each part of it, if no buffer of the device holds all. Beside values for each
    /// element, that may depend on the number of steps only: a checkpoint has it once for a group.
    type State: Send + Sync;

    /// The learning rate to start with.
    fn learning_rate(&self) -> f32;

    /// The other settings that not every number will do for: a group with one that will not is refused.
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }

    /// Makes the state of a group.
    ///
    /// # Errors
    /// If there is no memory for it.
    ///
    /// # Panics
    /// If the group's parameters are not such as the rule is made for.
    fn state(&self, new: &mut NewState<'_>) -> Result<Self::State>;

    /// The parameters after a step; the state is assigned here.
    fn update(&self, state: &Self::State, at: &Update<'_>) -> Tensor;
}

/// A setting of a rule, and which numbers will do for it.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    name: &'static str,
    value: f64,
    below_one: bool,
}

impl Setting {
    /// One that is at least 0 and finite.
    pub fn not_negative(name: &'static str, value: impl Into<f64>) -> Self {
        Self { name, value: value.into(), below_one: false }
    }

    /// One that is at least 0 and below 1, such as how much of a running mean a step keeps.
    pub fn below_one(name: &'static str, value: impl Into<f64>) -> Self {
        Self { below_one: true, ..Self::not_negative(name, value) }
    }

    /// # Panics
    /// If its number will not do.
    #[track_caller]
    pub(super) fn check(self) {
        let Self { name, value, below_one } = self;
        let fits = value >= 0.0 && value.is_finite() && !(below_one && value >= 1.0);
        let range = if below_one { "at least 0 and below 1" } else { "at least 0 and finite" };
        assert!(fits, "optimizer: {name} is {}, which is to be {range}", value as f32);
    }
}

/// What a step has to go by. Vectors are laid out as the group's arena is: gaps between parameters are zero.
#[derive(Debug)]
pub struct Update<'a> {
    /// The parameters before the step.
    pub parameters: Tensor,
    /// Their gradient, clipped if so set.
    pub gradient: Tensor,
    /// The learning rate, of shape `[]`: a host value, so that it changes without another plan.
    pub rate: Tensor,
    /// Where each parameter lies.
    pub layout: &'a Layout,
}

/// The variables of `copy` that have the names of these.
///
/// # Errors
/// If it has none of a name, or one of another shape or type.
pub(super) fn partners(of: &[Var], copy: &(impl Variables + ?Sized)) -> Result<Vec<Var>> {
    let own = copy.variables();
    let alike = |a: &Var, b: &Var| a.name() == b.name() && a.shape() == b.shape() && a.dtype() == b.dtype();
    let partner = |variable: &Var| {
        own.iter().find(|own| alike(own, variable)).cloned().ok_or_else(|| {
            let name = variable.name();
            Error::Config(format!("the copy of the model has no variable `{name}`, or one of another shape or type"))
        })
    };
    of.iter().map(partner).collect()
}

/// Where the parameters of a group lie in its vectors.
#[derive(Debug)]
pub struct Layout {
    parameters: Vec<Var>,
    arena: Arena,
}

impl Layout {
    /// Moves `parameters` into an arena of this name.
    #[track_caller]
    pub(crate) fn new(name: &str, parameters: &[Var]) -> Result<Self> {
        Ok(Self { parameters: parameters.to_vec(), arena: Arena::new(name, parameters)? })
    }

    /// Parameters in order, in as many parts as arenas of at most so many bytes take.
    pub(super) fn in_parts(parameters: &[Var], largest: u64) -> Vec<&[Var]> {
        let (mut parts, mut first, mut bytes) = (Vec::new(), 0, 0);
        for (number, parameter) in parameters.iter().enumerate() {
            let own = Arena::bytes_of(parameter);
            if number > first && bytes + own > largest {
                parts.push(&parameters[first..number]);
                (first, bytes) = (number, 0);
            }
            bytes += own;
        }
        parts.push(&parameters[first..]);
        parts
    }

    /// The parameters of `copy`, a model of the same kind, laid out as those of these groups.
    ///
    /// # Errors
    /// If it has not the same parameters.
    #[track_caller]
    pub(crate) fn beside(name: &str, groups: &[&Self], copy: &(impl Variables + ?Sized)) -> Result<Vec<Self>> {
        let mut beside = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            beside.push(Self::new(&format!("{name}.{number}"), &partners(&group.parameters, copy)?)?);
        }
        Ok(beside)
    }

    /// The group's parameters, in the order in which they lie.
    pub fn parameters(&self) -> &[Var] {
        &self.parameters
    }

    /// The memory they share.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The parts of a vector, each in its parameter's shape.
    pub fn split(&self, flat: &Tensor) -> Vec<Tensor> {
        let part = |(parameter, &offset): (&Var, &usize)| {
            flat.narrow(0, offset, parameter.shape().numel()).reshape(parameter.shape())
        };
        self.parameters.iter().zip(self.arena.offsets()).map(part).collect()
    }

    /// The gradients of the parameters as one vector; those that the loss does not depend on are zero.
    pub(crate) fn pack_gradients(&self, gradients: &Gradients) -> Tensor {
        let gradient = |parameter: &Var| {
            let zeros = || Tensor::zeros(parameter.shape().clone(), parameter.device());
            gradients.of(parameter).unwrap_or_else(zeros)
        };
        self.pack(&self.parameters.iter().map(gradient).collect::<Vec<_>>())
    }

    /// The vector of these parts, one for each parameter.
    pub fn pack(&self, parts: &[Tensor]) -> Tensor {
        self.arena.pack(parts)
    }
}

/// Makes what a group's rule keeps from step to step.
#[derive(Debug)]
pub struct NewState<'a> {
    pub(super) path: String,
    pub(super) layout: &'a Layout,
    pub(super) made: Vec<Var>,
}

impl NewState<'_> {
    /// The parameters of the group.
    pub fn parameters(&self) -> &[Var] {
        &self.layout.parameters
    }

    /// One value for each element of the group's vectors, zero at first.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn flat(&mut self, name: &str) -> Result<Var> {
        self.full(name, [self.layout.arena.numel()].into(), 0.0)
    }

    /// One value for each element of the group's vectors, `value` at first.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn flat_of(&mut self, name: &str, value: f32) -> Result<Var> {
        self.full(name, [self.layout.arena.numel()].into(), value)
    }

    /// One value for the group, zero at first.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn scalar(&mut self, name: &str) -> Result<Var> {
        self.full(name, Shape::default(), 0.0)
    }

    /// One value for the group, `value` at first.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn scalar_of(&mut self, name: &str, value: f32) -> Result<Var> {
        self.full(name, Shape::default(), value)
    }

    fn full(&mut self, name: &str, shape: Shape, value: f32) -> Result<Var> {
        let device: &Device = self.layout.parameters[0].device();
        let var = Var::state(&format!("{}.{name}", self.path), &Tensor::full(shape, value, device))?;
        self.made.push(var.clone());
        Ok(var)
    }
}
