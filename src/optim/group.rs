//! Parameters that are updated together, and the optimizer made of such groups.

use std::collections::BTreeMap;
use std::fmt;

use crate::autodiff::Gradients;
use crate::dtype::DType;
use crate::error::Result;
use crate::runtime::{Hyper, Var, VarKind, check_finite, never_skip};
use crate::shape::MAX_ELEMENTS;
use crate::stage::Stage;
use crate::tensor::Tensor;

use super::clip::{self, Norm};
use super::rule::{Layout, NewState, Rule, Setting, Update};
use super::{Optimizer, state};

/// An optimizer: groups of parameters, each with options of its own, that all follow one [`Rule`].
///
/// A group's parameters lie in one arena, so that a rule of elementwise operations updates them in one launch; in
/// several, where the device's buffers are too small for one.
pub struct Grouped<R: Rule> {
    groups: Vec<Group<R>>,
    clip: Option<Clip>,
    maximize: bool,
}

impl<R: Rule> fmt::Debug for Grouped<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = |group: &Group<R>| group.parameters().cloned().collect::<Vec<_>>();
        f.debug_list().entries(self.groups.iter().map(parameters)).finish()
    }
}

/// Parameters with the options they share.
struct Group<R: Rule> {
    learning_rate: Hyper,
    options: R,
    parts: Vec<Part<R>>,
}

impl<R: Rule> Group<R> {
    fn parameters(&self) -> impl Iterator<Item = &Var> {
        self.parts.iter().flat_map(|part| part.layout.parameters())
    }
}

/// The parameters of one arena and the state their rule keeps.
struct Part<R: Rule> {
    layout: Layout,
    state: R::State,
    variables: Vec<Var>,
    /// The sum of gradients that waits for the next update, if the optimizer accumulates.
    accumulated: Option<Var>,
}

impl<R: Rule> Part<R> {
    #[track_caller]
    fn accumulated(&self, what: &str) -> &Var {
        self.accumulated.as_ref().unwrap_or_else(|| panic!("{what}: the optimizer is made with_accumulation"))
    }
}

#[derive(Clone, Copy)]
enum Clip {
    Norm(f32, Norm),
    Value(f32),
}

impl<R: Rule> Grouped<R> {
    /// An optimizer of one group.
    ///
    /// # Errors
    /// If there is no memory for the state.
    ///
    /// # Panics
    /// If there are no parameters, one is not f32, occurs twice, or belongs to another optimizer; or a setting is out
    /// of its range, such as a negative learning rate.
    #[track_caller]
    pub fn new(parameters: &[Var], options: R) -> Result<Self> {
        Self { groups: Vec::new(), clip: None, maximize: false }.with_group(parameters, options)
    }

    /// Adds a group with options of its own, such as no weight decay for biases.
    ///
    /// # Errors
    /// If there is no memory for the state.
    ///
    /// # Panics
    /// As [`Grouped::new`].
    #[track_caller]
    pub fn with_group(self, parameters: &[Var], options: R) -> Result<Self> {
        assert!(!parameters.is_empty(), "optimizer: a group without parameters");
        let largest = parameters[0].device().info().max_buffer_bytes;
        self.with_group_of(parameters, options, largest.min((MAX_ELEMENTS * DType::F32.size_bytes()) as u64))
    }

    /// The same with arenas of at most so many bytes.
    #[track_caller]
    fn with_group_of(mut self, parameters: &[Var], options: R, largest: u64) -> Result<Self> {
        rate_setting(options.learning_rate()).check();
        for setting in options.settings() {
            setting.check();
        }
        for parameter in parameters {
            let (name, dtype) = (parameter.name(), parameter.dtype());
            assert!(dtype == DType::F32, "optimizer: parameter {name} is {dtype}, not f32");
            let mut others = self.groups.iter().flat_map(Group::parameters);
            assert!(others.all(|other| other.id() != parameter.id()), "optimizer: parameter {name} is in two groups");
        }
        let mut parts = Vec::new();
        for (number, parameters) in Layout::in_parts(parameters, largest).into_iter().enumerate() {
            let path = match number {
                0 => format!("optimizer.{}", self.groups.len()),
                _ => format!("optimizer.{}.part{number}", self.groups.len()),
            };
            let layout = Layout::new(&format!("{path}.parameters"), parameters)?;
            let mut new = NewState { path, layout: &layout, made: Vec::new() };
            let state = options.state(&mut new)?;
            let variables = new.made;
            parts.push(Part { layout, state, variables, accumulated: None });
        }
        self.groups.push(Group { learning_rate: Hyper::new(options.learning_rate()), options, parts });
        Ok(self)
    }

    fn parts(&self) -> impl Iterator<Item = &Part<R>> {
        self.groups.iter().flat_map(|group| &group.parts)
    }

    /// Limits the Euclidean norm of all gradients together, as [`clip_grad_norm`](super::clip_grad_norm).
    ///
    /// # Panics
    /// If the limit is negative or NaN.
    #[track_caller]
    #[must_use]
    pub fn with_max_norm(self, max_norm: f32) -> Self {
        self.with_max_norm_of(max_norm, Norm::Euclidean)
    }

    /// Limits a norm of all gradients together, as [`clip_grad_norm`](super::clip_grad_norm).
    ///
    /// # Panics
    /// If the limit is negative or NaN, or the norm's power is not positive.
    #[track_caller]
    #[must_use]
    pub fn with_max_norm_of(mut self, max_norm: f32, norm: Norm) -> Self {
        assert!(max_norm >= 0.0, "with_max_norm: {max_norm} is not a limit");
        self.clip = Some(Clip::Norm(max_norm, norm.checked()));
        self
    }

    /// Limits every element of the gradients to `-max_value..=max_value`, as
    /// [`clip_grad_value`](super::clip_grad_value).
    ///
    /// # Panics
    /// If the limit is negative or NaN.
    #[track_caller]
    #[must_use]
    pub fn with_max_value(mut self, max_value: f32) -> Self {
        assert!(max_value >= 0.0, "with_max_value: {max_value} is not a limit");
        self.clip = Some(Clip::Value(max_value));
        self
    }

    /// Climbs instead of descending: PyTorch's `maximize=True`.
    #[must_use]
    pub fn with_maximize(mut self) -> Self {
        self.maximize = true;
        self
    }

    /// Makes room for gradients that [`Optimizer::accumulate`] adds up: one number for each parameter. Groups that are
    /// added later do not accumulate.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn with_accumulation(mut self) -> Result<Self> {
        for (number, group) in self.groups.iter_mut().enumerate() {
            for part in &mut group.parts {
                let whole = part.layout.arena().whole();
                let (name, shape) = (format!("optimizer.{number}.accumulated"), whole.shape().clone());
                part.accumulated = Some(Var::zeros(&name, VarKind::State, shape, whole.dtype(), whole.device())?);
            }
        }
        Ok(self)
    }

    /// The gradients of each part as one vector, placed as the parameters are; gaps are zero. And their norm before it
    /// is limited.
    fn gradients(&self, gradients: &Gradients) -> (Vec<Tensor>, Tensor) {
        let mut packed: Vec<_> = self.parts().map(|part| part.layout.pack_gradients(gradients)).collect();
        for gradient in &packed {
            check_finite(std::slice::from_ref(gradient.node()));
        }
        for (gradient, part) in packed.iter_mut().zip(self.parts()) {
            if let Some(accumulated) = &part.accumulated {
                *gradient = &*gradient + accumulated.tensor();
                accumulated.assign(&gradient.zeros_like());
                // a step that is skipped drops all of its parts
                never_skip(std::slice::from_ref(accumulated));
            }
        }
        let norm = Norm::Euclidean.of(&packed).expect("an optimizer has groups");
        match self.clip {
            None => {}
            Some(Clip::Norm(max_norm, norm)) => packed = clip::clip_grad_norm(&packed, max_norm, norm).0,
            Some(Clip::Value(max_value)) => packed = clip::clip_grad_value(&packed, max_value),
        }
        if self.maximize {
            packed.iter_mut().for_each(|gradient| *gradient = -&*gradient);
        }
        (packed, norm)
    }

    /// Panics if there is nothing to learn from: the loss was made of other parameters than these, or detached.
    #[track_caller]
    fn assert_some(&self, what: &str, gradients: &Gradients) {
        let mut parameters = self.groups.iter().flat_map(Group::parameters);
        let some = parameters.any(|parameter| gradients.of(parameter).is_some());
        assert!(some, "{what}: the loss depends on none of the optimizer's parameters");
    }

    fn entries(&self) -> Vec<state::Entry<'_>> {
        fn of<R: Rule>(part: &Part<R>) -> (&Layout, &[Var]) {
            (&part.layout, &part.variables)
        }
        let groups = self.groups.iter();
        groups
            .map(|group| state::Entry {
                parts: group.parts.iter().map(of).collect(),
                learning_rate: &group.learning_rate,
            })
            .collect()
    }
}

fn rate_setting(learning_rate: f32) -> Setting {
    Setting::not_negative("learning_rate", learning_rate)
}

impl<R: Rule> Optimizer for Grouped<R> {
    #[track_caller]
    fn update(&self, gradients: &Gradients) -> Tensor {
        self.assert_some("update", gradients);
        Stage::Update.scope(|| {
            let (gradients, norm) = self.gradients(gradients);
            let of_groups = self.groups.iter().flat_map(|group| group.parts.iter().map(move |part| (group, part)));
            for ((group, part), gradient) in of_groups.zip(gradients) {
                let arena = part.layout.arena();
                let rate = group.learning_rate.tensor(arena.whole().device());
                let at = Update { parameters: arena.tensor(), gradient, rate, layout: &part.layout };
                arena.assign(&group.options.update(&part.state, &at));
            }
            norm
        })
    }

    #[track_caller]
    fn accumulate(&self, gradients: &Gradients) {
        self.assert_some("accumulate", gradients);
        Stage::Update.scope(|| {
            for part in self.parts() {
                let accumulated = part.accumulated("accumulate");
                let gradient = part.layout.pack_gradients(gradients);
                check_finite(std::slice::from_ref(gradient.node()));
                accumulated.assign(&(accumulated.tensor() + gradient));
            }
        });
    }

    #[track_caller]
    fn scale_accumulated(&self, factor: &Tensor) {
        assert!(factor.rank() == 0, "scale_accumulated: the factor is {}, not []", factor.shape());
        Stage::Update.scope(|| {
            for accumulated in self.parts().map(|part| part.accumulated("scale_accumulated")) {
                accumulated.assign(&(accumulated.tensor() * factor));
            }
        });
    }

    fn layouts(&self) -> Vec<&Layout> {
        self.parts().map(|part| &part.layout).collect()
    }

    #[track_caller]
    fn set_learning_rates(&self, learning_rates: &[f32]) {
        let (got, groups) = (learning_rates.len(), self.groups.len());
        assert!(got == groups, "set_learning_rates: {got} learning rates for {groups} groups");
        for &learning_rate in learning_rates {
            rate_setting(learning_rate).check();
        }
        for (group, &learning_rate) in self.groups.iter().zip(learning_rates) {
            group.learning_rate.set(learning_rate);
        }
    }

    fn learning_rates(&self) -> Vec<f32> {
        self.groups.iter().map(|group| group.learning_rate.get()).collect()
    }

    fn state(&self) -> Vec<Var> {
        self.parts().flat_map(|part| part.variables.iter().cloned()).collect()
    }

    fn state_dict(&self) -> BTreeMap<String, Tensor> {
        state::dict(&self.entries())
    }

    fn load_state_dict(&self, state: &BTreeMap<String, Tensor>) -> Result<()> {
        state::load(&self.entries(), state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::optim::AdamOptions;

    /// Adam of three parameters and two steps, in arenas of at most so many bytes.
    fn stepped(device: &Device, largest: u64) -> (Grouped<AdamOptions>, Vec<Vec<f32>>) {
        let parameter = |name: &str, size: usize, value: f32| {
            Var::parameter(name, &Tensor::full([size], value, device)).expect("memory")
        };
        let parameters = [parameter("a", 70, 1.0), parameter("b", 3, -2.0), parameter("c", 65, 0.5)];
        let empty = Grouped { groups: Vec::new(), clip: None, maximize: false };
        let optimizer = empty.with_group_of(&parameters, AdamOptions::default(), largest).expect("memory");
        let optimizer = optimizer.with_accumulation().expect("memory");
        for _ in 0..2 {
            let loss = || {
                let losses = parameters.each_ref().map(|parameter| parameter.tensor().square().sum());
                losses.into_iter().reduce(|a, b| a + b).expect("three")
            };
            optimizer.accumulate(&loss().backward());
            optimizer.update(&loss().backward());
        }
        let values = parameters.each_ref().map(|parameter| parameter.tensor().to_vec::<f32>().expect("values"));
        (optimizer, values.into())
    }

    #[test]
    fn parameters_in_several_arenas_are_updated_as_in_one() {
        for info in Device::list() {
            let device = Device::named(&info.selector).expect("it is listed");
            let (whole, expected) = stepped(&device, u64::MAX);
            let (parts, values) = stepped(&device, 1024);
            assert_eq!((whole.layouts().len(), parts.layouts().len()), (1, 2));
            assert_eq!(values, expected, "on {}", device.name());
            assert_eq!((parts.learning_rates().len(), parts.state().len()), (1, 2 * whole.state().len()));
            // what one has kept is of use to the other
            let (of_whole, of_parts) = (whole.state_dict(), parts.state_dict());
            let read = |dict: &BTreeMap<String, Tensor>| {
                let values = dict.iter().map(|(name, value)| (name.clone(), value.to_vec::<f32>().expect("values")));
                values.collect::<Vec<_>>()
            };
            assert_eq!(read(&of_parts), read(&of_whole));
            parts.load_state_dict(&of_whole).expect("the same parameters");
            whole.load_state_dict(&of_parts).expect("the same parameters");
            assert_eq!(read(&parts.state_dict()), read(&whole.state_dict()));
        }
    }
}
