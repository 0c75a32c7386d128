//! An optimizer's state as named tensors, the form in which files keep it.
//!
//! What the rule keeps for each element is split by parameter, as `state.NAME.SLOT` (`state.fc1.weight.exp_avg`), so
//! that it fits an optimizer with the same parameters in other groups or another order. What it keeps for a group is
//! `param_groups.NUMBER.SLOT`, the learning rate `param_groups.NUMBER.lr`.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::runtime::{Hyper, Var};
use crate::tensor::Tensor;

use super::rule::Layout;

/// A group's parameters and state, and its learning rate.
pub(super) struct Entry<'a> {
    /// What is in one arena each. They all take the same steps, so what is kept for a group is the same in all of them.
    pub(super) parts: Vec<(&'a Layout, &'a [Var])>,
    pub(super) learning_rate: &'a Hyper,
}

/// The last word of a state variable's path.
fn slot(variable: &Var) -> &str {
    variable.name().rsplit('.').next().unwrap_or_default()
}

fn is_flat(layout: &Layout, variable: &Var) -> bool {
    variable.shape() == layout.arena().whole().shape()
}

fn part_name(parameter: &Var, variable: &Var) -> String {
    format!("state.{}.{}", parameter.name(), slot(variable))
}

pub(super) fn dict(groups: &[Entry<'_>]) -> BTreeMap<String, Tensor> {
    let mut dict = BTreeMap::new();
    let mut insert = |name: String, value: Tensor| {
        let twice = format!("state_dict: {name} stands for two tensors: give parameters names of their own");
        assert!(dict.insert(name, value).is_none(), "{twice}");
    };
    for (number, Entry { parts, learning_rate }) in groups.iter().enumerate() {
        let device = parts[0].0.arena().whole().device();
        insert(format!("param_groups.{number}.lr"), Tensor::scalar(learning_rate.get(), device));
        for (of_group, (layout, variables)) in parts.iter().enumerate() {
            for variable in *variables {
                if is_flat(layout, variable) {
                    let parts = layout.split(&variable.tensor());
                    for (parameter, part) in layout.parameters().iter().zip(parts) {
                        insert(part_name(parameter, variable), part);
                    }
                } else if of_group == 0 {
                    insert(format!("param_groups.{number}.{}", slot(variable)), variable.tensor());
                }
            }
        }
    }
    dict
}

/// Sets everything from `dict`; nothing changes unless all names and shapes fit.
pub(super) fn load(groups: &[Entry<'_>], dict: &BTreeMap<String, Tensor>) -> Result<()> {
    let expected = self::dict(groups);
    for (name, own) in &expected {
        let Some(given) = dict.get(name) else {
            return Err(Error::Shape(format!(
                "the optimizer's state lacks {name}: it is of another optimizer or model"
            )));
        };
        if (given.shape(), given.dtype()) != (own.shape(), own.dtype()) {
            let (got, wanted) =
                (format!("{}{}", given.dtype(), given.shape()), format!("{}{}", own.dtype(), own.shape()));
            return Err(Error::Shape(format!("the optimizer's state has {name} as {got} instead of {wanted}")));
        }
    }
    if let Some(name) = dict.keys().find(|name| !expected.contains_key(*name)) {
        return Err(Error::Shape(format!("the optimizer's state has {name}, which this optimizer does not know")));
    }
    let mut rates = Vec::with_capacity(groups.len());
    for number in 0..groups.len() {
        let rate: f32 = dict[&format!("param_groups.{number}.lr")].item()?;
        if !(rate >= 0.0 && rate.is_finite()) {
            return Err(Error::Shape(format!("the optimizer's state has {rate} as learning rate of group {number}")));
        }
        rates.push(rate);
    }
    for (number, Entry { parts, learning_rate }) in groups.iter().enumerate() {
        learning_rate.set(rates[number]);
        for (layout, variable) in parts.iter().flat_map(|&(layout, all)| all.iter().map(move |one| (layout, one))) {
            if is_flat(layout, variable) {
                let part = |parameter: &Var| dict[&part_name(parameter, variable)].to_device(variable.device());
                let parts = layout.parameters().iter().map(part).collect::<Result<Vec<_>>>()?;
                variable.set(&layout.pack(&parts))?;
            } else {
                let given = &dict[&format!("param_groups.{number}.{}", slot(variable))];
                variable.set(&given.to_device(variable.device())?)?;
            }
        }
    }
    Ok(())
}
