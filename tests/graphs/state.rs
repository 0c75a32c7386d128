//! Variables of a graph: parameters with their optimizer, and what layers keep.

use brasa::nn::{BatchNorm1d, Init, Variables};
use brasa::optim::*;
use brasa::runtime::Var;
use brasa::{Device, Result, Tensor};

use super::case::SplitMix;
use super::layers::Layers;

/// Shapes of the parameters: sizes that leave gaps in an arena, and one that does not.
const SHAPES: [&[usize]; 4] = [&[3, 4], &[5], &[], &[2, 3, 2]];

pub(crate) struct State {
    pub(crate) parameters: Vec<Var>,
    /// What may be assigned.
    pub(crate) buffers: Vec<Var>,
    pub(crate) norm: BatchNorm1d,
    /// There if a row needs them.
    pub(crate) layers: Option<Layers>,
    optimizer: Option<Box<dyn Optimizer>>,
    /// Everything that may change.
    pub(crate) all: Vec<Var>,
}

type Make = fn(&[Var]) -> Result<Box<dyn Optimizer>>;

/// An optimizer with these options.
macro_rules! made {
    ($kind:ident, $options:expr) => {
        |parameters| Ok(Box::new($kind::new(parameters, $options)?))
    };
}

/// Every optimizer.
pub(crate) const OPTIMIZERS: [(&str, Make); 14] = [
    ("SGD", made!(SGD, SGDOptions { learning_rate: 0.1, ..SGDOptions::default() })),
    ("SGD clipped", |p| Ok(Box::new(SGD::new(p, SGDOptions::default())?.with_max_norm(0.5)))),
    ("Adam", made!(Adam, AdamOptions::default())),
    ("Adadelta", made!(Adadelta, AdadeltaOptions::default())),
    ("Adagrad", made!(Adagrad, AdagradOptions::default())),
    ("Adamax", made!(Adamax, AdamaxOptions::default())),
    ("ASGD", made!(ASGD, ASGDOptions::default())),
    ("Rprop", made!(Rprop, RpropOptions::default())),
    ("Lamb", made!(Lamb, LambOptions::default())),
    ("Lion", made!(Lion, LionOptions::default())),
    ("Muon", |p| Ok(Box::new(Muon::new(&p[..1], MuonOptions::default())?))),
    ("NAdam", made!(NAdam, NAdamOptions::default())),
    ("RAdam", made!(RAdam, RAdamOptions::default())),
    ("RMSprop", made!(RMSprop, RMSpropOptions::default())),
];

impl State {
    pub(crate) fn new(device: &Device, kind: u8, optimizes: bool, with_layers: bool) -> Result<Self> {
        let mut random = SplitMix(77);
        let mut var = |name: &str, shape: &[usize], make: fn(&str, &Tensor) -> Result<Var>| {
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|_| random.below(256) as f32 / 64.0 - 2.0).collect();
            make(name, &Tensor::from_slice(&values, shape, device)?)
        };
        let mut parameters = Vec::new();
        for (number, shape) in SHAPES.iter().enumerate() {
            parameters.push(var(&format!("parameter{number}"), shape, Var::parameter)?);
        }
        let buffers = vec![var("matrix", &[4, 3], Var::buffer)?, var("vector", &[6], Var::buffer)?];
        let norm = BatchNorm1d::new(3, &Init::new(device, 5))?;
        let layers = if with_layers { Some(Layers::new(&Init::new(device, 6))?) } else { None };
        let optimizer = match optimizes {
            true => Some((OPTIMIZERS[usize::from(kind) % OPTIMIZERS.len()].1)(&parameters)?),
            false => None,
        };
        let mut all = [parameters.clone(), buffers.clone(), norm.variables()].concat();
        all.extend(layers.iter().flat_map(Layers::buffers));
        all.extend(optimizer.iter().flat_map(|optimizer| optimizer.state()));
        Ok(Self { parameters, buffers, norm, layers, optimizer, all })
    }

    /// What a graph starts from.
    pub(crate) fn variables(&self) -> Vec<Var> {
        [self.buffers.clone(), self.parameters.clone()].concat()
    }

    /// Moves the parameters along the gradient of `loss`.
    pub(crate) fn update(&self, loss: &Tensor) {
        let reached = self.parameters.iter().map(|parameter| parameter.tensor().sum()).reduce(|a, b| a + b);
        // all of them have a gradient, if only a little one
        let loss = loss + reached.expect("there are parameters") * 0.01;
        self.optimizer.as_ref().expect("a state that is updated has an optimizer").update(&loss.backward());
    }
}
