//! A model's variables as named tensors, and how named tensors fit a model.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::error::{Result, StateMismatch};
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::Variables;
use super::pattern::matches;

/// The end of names that may be missing, and may be there without a variable: batch norm's count of batches decides
/// nothing unless statistics are means over all of them, and old files do not have it.
const OPTIONAL: &str = "num_batches_tracked";

/// Current values of all variables of `module`, by path; tied ones under each of their names.
///
/// # Panics
/// If two variables have one path, as layers that were made of the same [`Init`](super::Init): so does all that saves
/// or loads them.
#[track_caller]
pub fn state<M: Variables + ?Sized>(module: &M) -> BTreeMap<String, Tensor> {
    named(module).into_iter().map(|(name, variable)| (name, variable.tensor())).collect()
}

/// The first name that two variables have.
pub(crate) fn repeated_name<M: Variables + ?Sized>(module: &M) -> Option<String> {
    let mut names = HashSet::new();
    module.variables().iter().map(|variable| variable.name().to_owned()).find(|name| !names.insert(name.clone()))
}

/// All names of all variables.
#[track_caller]
pub(super) fn named<M: Variables + ?Sized>(module: &M) -> BTreeMap<String, Var> {
    if let Some(name) = repeated_name(module) {
        panic!("two variables of the model are called `{name}`: give each layer a path of its own with Init::at");
    }
    let variables = module.variables().into_iter().map(|variable| (variable.name().to_owned(), variable));
    let mut named: BTreeMap<String, Var> = variables.collect();
    module.visit_tied(&mut |name, variable| {
        named.insert(name.to_owned(), variable.clone());
    });
    named
}

/// Sets every variable of `module` to the tensor of its name, converted to the variable's type and copied to its
/// device; nothing changes unless names and shapes all fit.
///
/// # Errors
/// [`Error::State`](crate::Error::State) if they do not fit.
#[track_caller]
pub fn load_state<M: Variables + ?Sized>(module: &M, state: &BTreeMap<String, Tensor>) -> Result<()> {
    load_state_with(module, state, &LoadOptions::default()).map(drop)
}

/// [`load_state`] with other options.
///
/// # Errors
/// [`Error::State`](crate::Error::State) if names or shapes do not fit.
#[track_caller]
pub fn load_state_with<M: Variables + ?Sized>(
    module: &M,
    state: &BTreeMap<String, Tensor>,
    options: &LoadOptions,
) -> Result<LoadReport> {
    let keys = state.iter().map(|(name, tensor)| (name.as_str(), tensor.shape().dims()));
    let (targets, report) = fit(module, keys, options).map_err(Box::new)?;
    // all copies before the first change
    let values =
        targets.iter().map(|(variable, key)| state[key].to_dtype(variable.dtype()).to_device(variable.device()));
    let values = values.collect::<Result<Vec<_>>>()?;
    for ((variable, _), value) in targets.iter().zip(values) {
        variable.set(&value)?;
    }
    Ok(report)
}

/// How names are matched, and whether all must be.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    partial: bool,
    skipped: Vec<String>,
    renamed: Vec<(String, String)>,
}

impl LoadOptions {
    /// Names may be missing or unknown; the report lists them. Shapes must fit all the same.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Leaves out what goes by these names before any renaming; `*` stands for any characters. Such as `fc.*`, for a
    /// head with another number of classes (together with [`LoadOptions::partial`]).
    #[must_use]
    pub fn skip(mut self, pattern: &str) -> Self {
        self.skipped.push(pattern.to_owned());
        self
    }

    /// Names that begin with `from` begin with `to` instead: `module.` by nothing, `fc.` by `head.`. The first rule
    /// that applies counts.
    #[must_use]
    pub fn rename(mut self, from: &str, to: &str) -> Self {
        self.renamed.push((from.to_owned(), to.to_owned()));
        self
    }

    /// What `key` is called in the model; `None` if it is left out.
    pub(super) fn target(&self, key: &str) -> Option<String> {
        if self.skipped.iter().any(|pattern| matches(pattern, key)) {
            return None;
        }
        let renamed =
            self.renamed.iter().find_map(|(from, to)| key.strip_prefix(from).map(|rest| format!("{to}{rest}")));
        Some(renamed.unwrap_or_else(|| key.to_owned()))
    }
}

/// What loading did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadReport {
    /// Variables that were set.
    pub loaded: usize,
    /// Names of variables that were not.
    pub missing: Vec<String>,
    /// Names, after renaming, to which no variable corresponds.
    pub unexpected: Vec<String>,
}

/// Which variable gets the value of which key.
#[track_caller]
pub(super) fn fit<'a, M: Variables + ?Sized>(
    module: &M,
    keys: impl Iterator<Item = (&'a str, &'a [usize])>,
    options: &LoadOptions,
) -> Result<(Vec<(Var, String)>, LoadReport), StateMismatch> {
    let named = named(module);
    let (mut problems, mut chosen) = (StateMismatch::default(), HashMap::<u64, (Var, String)>::new());
    for (key, shape) in keys {
        let Some(target) = options.target(key) else { continue };
        let Some(variable) = named.get(&target) else {
            if !target.ends_with(OPTIONAL) {
                problems.unexpected.push(target);
            }
            continue;
        };
        if variable.shape().dims() != shape {
            problems.misshaped.push((target, shape.into(), variable.shape().clone()));
        } else if target == variable.name() || !chosen.contains_key(&variable.id()) {
            // of a tied one's values, that under its own name counts
            chosen.insert(variable.id(), (variable.clone(), key.to_owned()));
        }
    }
    // files list their tensors in any order
    problems.unexpected.sort();
    problems.misshaped.sort_by(|a, b| a.0.cmp(&b.0));
    let misshaped: HashSet<&str> = problems.misshaped.iter().map(|(name, ..)| name.as_str()).collect();
    let is_missing = |variable: &Var| !chosen.contains_key(&variable.id()) && !misshaped.contains(variable.name());
    let variables = module.variables();
    let missing = variables.iter().filter(|variable| is_missing(variable)).map(|variable| variable.name().to_owned());
    problems.missing = missing.filter(|name| !name.ends_with(OPTIONAL)).collect();
    let incomplete = !problems.missing.is_empty() || !problems.unexpected.is_empty();
    if !problems.misshaped.is_empty() || incomplete && !options.partial {
        return Err(problems);
    }
    let targets: Vec<_> = variables.iter().filter_map(|variable| chosen.remove(&variable.id())).collect();
    let StateMismatch { missing, unexpected, .. } = problems;
    let report = LoadReport { loaded: targets.len(), missing, unexpected };
    Ok((targets, report))
}
