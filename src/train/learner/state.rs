//! What a run goes on from.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::nn;
use crate::runtime::Var;
use crate::tensor::Tensor;
use crate::train::checkpoint::{AVERAGE, MODEL, OPTIMIZER, OTHER};

use super::Learner;

impl Learner {
    /// Everything that training goes on from, by name.
    pub(in crate::train) fn state(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut state = BTreeMap::new();
        let mut insert = |prefix: &str, name: &str, value| state.insert(format!("{prefix}{name}"), value);
        for (name, value) in nn::state(self.model.as_ref()) {
            insert(MODEL, &name, value);
        }
        if let Some(average) = &self.average {
            for (name, value) in nn::state(average.model().as_ref()) {
                insert(AVERAGE, &name, value);
            }
        }
        for (name, value) in self.optimizer.state_dict() {
            insert(OPTIMIZER, &name, value);
        }
        for variable in self.other_state() {
            insert(OTHER, variable.name(), variable.tensor());
        }
        Ok(state)
    }

    /// Sets everything that [`Learner::state`] gave, after `steps` steps; nothing that does not fit is taken. What only
    /// other settings than those of the checkpoint need (a count of skipped steps, the scale of losses) begins anew.
    pub(in crate::train) fn load(&mut self, mut state: BTreeMap<String, Tensor>, steps: u64) -> Result<()> {
        let mut part = |prefix: &str| {
            let names: Vec<_> = state.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
            let entry = |name: String| (name[prefix.len()..].to_owned(), state.remove(&name).expect("it is there"));
            names.into_iter().map(entry).collect::<BTreeMap<_, _>>()
        };
        let (model, average, optimizer, other) = (part(MODEL), part(AVERAGE), part(OPTIMIZER), part(OTHER));
        nn::load_state(self.model.as_ref(), &model)?;
        if let Some(own) = &self.average {
            nn::load_state(own.model().as_ref(), &average)?;
        }
        self.optimizer.load_state_dict(&optimizer)?;
        for variable in self.other_state() {
            if let Some(value) = other.get(variable.name()) {
                variable.set(value)?;
            }
        }
        self.handed_over = steps;
        self.metrics.set_steps(steps);
        self.copy_to_others()
    }

    fn other_state(&self) -> Vec<Var> {
        let scaler = self.scaler.iter().flat_map(|scaler| scaler.state());
        scaler.chain(self.skipped.clone()).collect()
    }
}
