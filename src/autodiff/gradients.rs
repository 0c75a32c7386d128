//! What `backward` gives, and optimizers take.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Add;

use crate::graph::{Node, NodeRef};
use crate::runtime::Var;
use crate::stage::Stage;
use crate::tensor::Tensor;

/// Gradients by leaves: variables, inputs of steps and tensors made from data.
///
/// [`Tensor::backward`] gives those of one output by all float leaves that it depends on. Computed values, such as
/// `randn`, `zeros` and whatever was detached, are not leaves; [`grad`](super::grad) gives gradients by any tensor.
///
/// The gradient by a variable is that by the newest of its values that the output depends on. Which one that was does
/// not matter afterwards: an update may follow another assignment. Older values are constants beside it, such as
/// weights kept from the start of training that the present ones are to stay near.
///
/// What an optimizer gets need not come from `backward`:
///
/// ```
/// use brasa::autodiff::{Gradients, grad};
/// use brasa::optim::{Optimizer, SGD, SGDOptions};
/// use brasa::runtime::Var;
/// use brasa::{Device, Result, Tensor};
///
/// # fn main() -> Result<()> {
/// let device = Device::cpu();
/// let weight = Var::parameter("weight", &Tensor::full([2], 3.0_f32, &device))?;
/// let optimizer = SGD::new(&[weight.clone()], SGDOptions { learning_rate: 1.0, ..Default::default() })?;
/// let loss = weight.tensor().square().sum();
/// let mut gradients = loss.backward() + (weight.tensor() * 2.0).sum().backward();
/// assert_eq!(gradients.of(&weight).unwrap().to_vec::<f32>()?, [8.0, 8.0]);
/// gradients.insert(&weight, &Tensor::from_slice(&[1.0_f32, -1.0], [2], &device)?);
/// optimizer.update(&gradients);
/// assert_eq!(weight.tensor().to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Gradients {
    /// In an order that repeats from run to run, for [`iter`](Self::iter) and what [`map`](Self::map) draws.
    by_leaf: BTreeMap<Leaf, Tensor>,
}

/// What a gradient is by. Numbers grow with creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaf {
    Variable(u64),
    Node(u64),
}

impl Leaf {
    fn of(node: &Node) -> Self {
        node.variable.map_or(Self::Node(node.id), Self::Variable)
    }
}

impl Gradients {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The gradient by a variable; `None` if the output does not depend on it.
    pub fn of(&self, variable: &Var) -> Option<Tensor> {
        self.by_leaf.get(&Leaf::Variable(variable.id())).cloned()
    }

    /// The gradient by a leaf tensor, which stands for its variable if it is a value of one, the newest or not; `None`
    /// if the output does not depend on it, or it is not a leaf.
    pub fn get(&self, leaf: &Tensor) -> Option<Tensor> {
        self.by_leaf.get(&Leaf::of(leaf.node())).cloned()
    }

    /// Sets the gradient by a variable, and returns what it was.
    ///
    /// # Panics
    ///
    /// If it has not the variable's shape and type.
    #[track_caller]
    pub fn insert(&mut self, variable: &Var, gradient: &Tensor) -> Option<Tensor> {
        let fits = gradient.shape() == variable.shape() && gradient.dtype() == variable.dtype();
        let (name, dtype, shape) = (variable.name(), variable.dtype(), variable.shape());
        assert!(fits, "insert: a gradient {} {} for `{name}`, {dtype} {shape}", gradient.dtype(), gradient.shape());
        let (device, own) = (gradient.device(), variable.device());
        assert!(device == own, "insert: a gradient on {} for `{name}`, on {}", device.name(), own.name());
        self.by_leaf.insert(Leaf::Variable(variable.id()), gradient.clone())
    }

    /// Takes the gradient by a variable out.
    pub fn remove(&mut self, variable: &Var) -> Option<Tensor> {
        self.by_leaf.remove(&Leaf::Variable(variable.id()))
    }

    /// The number of gradients.
    pub fn len(&self) -> usize {
        self.by_leaf.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.by_leaf.is_empty()
    }

    /// All gradients: those by variables first, each kind in the order in which the leaves were made. For what several
    /// of them come to, such as their norm; [`of`](Self::of) gives that by a certain variable.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.by_leaf.values()
    }

    /// The same gradients, each changed by `f`: those by variables first, each kind in the order in which the leaves
    /// were made.
    pub fn map(self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        Self { by_leaf: self.by_leaf.into_iter().map(|(leaf, gradient)| (leaf, f(&gradient))).collect() }
    }

    /// The leaves among `nodes` that gradients are by: of each variable, its newest value.
    pub(super) fn targets<'a>(nodes: impl Iterator<Item = &'a NodeRef>) -> BTreeMap<Leaf, u64> {
        let mut targets = BTreeMap::new();
        for node in nodes.filter(|node| node.is_leaf()) {
            let newest = targets.entry(Leaf::of(node)).or_insert(node.id);
            *newest = node.id.max(*newest);
        }
        targets
    }

    /// Those by `targets`, as far as there are gradients by these nodes.
    pub(super) fn by_nodes(targets: BTreeMap<Leaf, u64>, mut gradients: HashMap<u64, Tensor>) -> Self {
        let found = targets.into_iter().filter_map(|(leaf, node)| Some((leaf, gradients.remove(&node)?)));
        Self { by_leaf: found.collect() }
    }
}

/// Gradients of a sum: by each leaf, the sum of what both have.
impl Add for Gradients {
    type Output = Self;

    #[track_caller]
    fn add(mut self, other: Self) -> Self {
        for (leaf, gradient) in other.by_leaf {
            let sum = match self.by_leaf.remove(&leaf) {
                Some(own) => Stage::Backward.scope(|| own + gradient),
                None => gradient,
            };
            self.by_leaf.insert(leaf, sum);
        }
        self
    }
}

/// Types and shapes, in the order of [`Gradients::iter`]; nothing is computed.
impl fmt::Debug for Gradients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |gradient| fmt::from_fn(move |f| write!(f, "{}{}", Tensor::dtype(gradient), gradient.shape()));
        f.write_str("Gradients ")?;
        f.debug_list().entries(self.iter().map(word)).finish()
    }
}
