//! Parameters that are updated together.

use crate::autodiff::Gradients;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::runtime::{Arena, Hyper, Var, check_finite};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// The parameters of a group in one arena, with the options they share and the state their rule keeps.
pub(super) struct Group<O, S> {
    parameters: Vec<Var>,
    pub(super) arena: Arena,
    pub(super) learning_rate: Hyper,
    pub(super) options: O,
    pub(super) state: S,
}

/// All groups of an optimizer.
pub(super) struct Groups<O, S> {
    pub(super) groups: Vec<Group<O, S>>,
    pub(super) max_norm: Option<f32>,
}

impl<O, S> Groups<O, S> {
    pub(super) fn new() -> Self {
        Self { groups: Vec::new(), max_norm: None }
    }

    /// Adds a group with the state that `make_state` makes.
    pub(super) fn add(
        &mut self,
        parameters: &[Var],
        learning_rate: f32,
        options: O,
        make_state: impl FnOnce(&NewState<'_>) -> Result<S>,
    ) -> Result<()> {
        assert!(!parameters.is_empty(), "optimizer: a group without parameters");
        for parameter in parameters {
            let (name, dtype) = (parameter.name(), parameter.dtype());
            assert!(dtype == DType::F32, "optimizer: parameter {name} is {dtype}, not f32");
            let taken =
                self.groups.iter().flat_map(|group| &group.parameters).any(|other| other.id() == parameter.id());
            assert!(!taken, "optimizer: parameter {name} is in two groups");
        }
        let path = format!("optimizer.{}", self.groups.len());
        let arena = Arena::new(&format!("{path}.parameters"), parameters)?;
        let state = make_state(&NewState { path, len: arena.numel(), device: parameters[0].device() })?;
        let (parameters, learning_rate) = (parameters.to_vec(), Hyper::new(learning_rate));
        self.groups.push(Group { parameters, arena, learning_rate, options, state });
        Ok(())
    }

    /// The gradients of each group as one vector, placed as the parameters are; gaps are zero. Limited if so set.
    pub(super) fn gradients(&self, gradients: &Gradients) -> Vec<Tensor> {
        let packed: Vec<_> = self.groups.iter().map(|group| group.pack(gradients)).collect();
        for gradient in &packed {
            check_finite(std::slice::from_ref(gradient.node()));
        }
        match self.max_norm {
            Some(max_norm) => limit_norm(packed, max_norm),
            None => packed,
        }
    }

    pub(super) fn set_learning_rate(&self, learning_rate: f32) {
        self.groups.iter().for_each(|group| group.learning_rate.set(learning_rate));
    }

    pub(super) fn learning_rate(&self) -> f32 {
        self.groups[0].learning_rate.get()
    }
}

/// Makes what a group's rule keeps from step to step, zero at first.
pub(super) struct NewState<'a> {
    path: String,
    len: usize,
    device: &'a Device,
}

impl NewState<'_> {
    /// One value for each element of the arena.
    pub(super) fn flat(&self, name: &str) -> Result<Var> {
        self.zeros(name, [self.len].into())
    }

    /// One value.
    pub(super) fn scalar(&self, name: &str) -> Result<Var> {
        self.zeros(name, Shape::default())
    }

    fn zeros(&self, name: &str, shape: Shape) -> Result<Var> {
        Var::state(&format!("{}.{name}", self.path), &Tensor::zeros(shape, self.device))
    }
}

impl<O, S> Group<O, S> {
    fn pack(&self, gradients: &Gradients) -> Tensor {
        let gradient = |parameter: &Var| {
            let zeros = || Tensor::zeros(parameter.shape().clone(), parameter.device());
            gradients.get(&parameter.tensor()).unwrap_or_else(zeros)
        };
        self.arena.pack(&self.parameters.iter().map(gradient).collect::<Vec<_>>())
    }

    /// The learning rate as a value of the graph that changes without another plan.
    pub(super) fn rate(&self) -> Tensor {
        self.learning_rate.tensor(self.parameters[0].device())
    }
}

/// Scales `gradients` so that their Euclidean norm, all together, is at most `max_norm`: the rule of PyTorch's
/// `clip_grad_norm_`, with its 1e-6 against division by zero.
fn limit_norm(gradients: Vec<Tensor>, max_norm: f32) -> Vec<Tensor> {
    let Some(square) = gradients.iter().map(|gradient| gradient.square().sum()).reduce(|a, b| a + b) else {
        return gradients;
    };
    let factor = ((square.sqrt() + 1e-6).reciprocal() * max_norm).minimum(1.0);
    gradients.iter().map(|gradient| gradient * &factor).collect()
}
