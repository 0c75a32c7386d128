//! Muon.

use crate::error::Result;
use crate::runtime::Var;
use crate::tensor::Tensor;

use super::moments::follow;
use super::{Grouped, NewState, Rule, Setting, Update, WeightDecay};

/// Settings of a group of matrices; defaults are those of PyTorch's `Muon`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MuonOptions {
    /// Scales the step, whose singular values are about 1.
    pub learning_rate: f32,
    /// Pull towards zero.
    pub weight_decay: WeightDecay,
    /// How much of the gradient's running mean each step keeps.
    pub momentum: f64,
    /// The step follows the gradient moved towards its mean instead of the mean.
    pub nesterov: bool,
    /// Coefficients of `x`, `x³` and `x⁵` of the iteration.
    pub coefficients: [f64; 3],
    /// The norm that the gradient is divided by is at least this.
    pub epsilon: f32,
    /// Number of iterations.
    pub steps: usize,
    /// How the step depends on the shape.
    pub adjust: MuonAdjust,
}

/// How much longer a step of Muon is for a matrix of `rows` by `columns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MuonAdjust {
    /// `sqrt(max(1, rows / columns))`: Keller Jordan's.
    #[default]
    Original,
    /// `0.2 · sqrt(max(rows, columns))`: the size of AdamW's steps, so that its learning rate and decay carry over (Liu
    /// et al., arXiv 2502.16982).
    MatchRmsAdamw,
    /// `sqrt(rows / columns)`
    SpectralUnclamped,
}

impl Default for MuonOptions {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            weight_decay: WeightDecay::Decoupled(0.1),
            momentum: 0.95,
            nesterov: true,
            coefficients: [3.4445, -4.775, 2.0315],
            epsilon: 1e-7,
            steps: 5,
            adjust: MuonAdjust::default(),
        }
    }
}

/// Muon (Jordan et al. 2024, <https://kellerjordan.github.io/posts/muon/>), as PyTorch's `Muon`, but in f32 where that
/// iterates in bfloat16: momentum, whose matrix is brought near the closest orthogonal one by a Newton–Schulz
/// iteration.
///
/// It is for the matrices of hidden layers; embeddings, heads and vectors go to another optimizer. Each matrix takes
/// three products per iteration.
///
/// # Panics
///
/// When a group is made with a parameter that is not a matrix.
pub type Muon = Grouped<MuonOptions>;

impl MuonAdjust {
    fn factor(self, rows: usize, columns: usize) -> f64 {
        let (rows, columns) = (rows as f64, columns as f64);
        match self {
            Self::Original => (rows / columns).max(1.0).sqrt(),
            Self::MatchRmsAdamw => 0.2 * rows.max(columns).sqrt(),
            Self::SpectralUnclamped => (rows / columns).sqrt(),
        }
    }
}

impl MuonOptions {
    /// About the orthogonal matrix closest to `matrix`.
    fn orthogonalized(&self, matrix: &Tensor) -> Tensor {
        let [a, b, c] = self.coefficients;
        let tall = matrix.shape()[0] > matrix.shape()[1];
        let wide = if tall { matrix.t() } else { matrix.clone() };
        // the largest singular value is at most 1
        let mut x = &wide / wide.square().sum().sqrt().maximum(self.epsilon);
        for _ in 0..self.steps {
            let gram = x.matmul(&x.t());
            let polynomial = &gram * b + gram.matmul(&gram) * c;
            x = &x * a + polynomial.matmul(&x);
        }
        if tall { x.t() } else { x }
    }
}

impl Rule for MuonOptions {
    type State = Var;

    fn learning_rate(&self) -> f32 {
        self.learning_rate
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::not_negative("momentum", self.momentum),
            Setting::not_negative("epsilon", self.epsilon),
            self.weight_decay.setting(),
        ]
    }

    fn state(&self, new: &mut NewState<'_>) -> Result<Var> {
        for parameter in new.parameters() {
            let (name, shape) = (parameter.name(), parameter.shape());
            assert!(
                shape.rank() == 2,
                "Muon: parameter {name} of shape {shape} is not a matrix: give it to another optimizer"
            );
        }
        new.flat("momentum_buffer")
    }

    fn update(&self, buffer: &Var, at: &Update<'_>) -> Tensor {
        let gradient = self.weight_decay.gradient(at);
        let mean = follow(buffer, &gradient, self.momentum);
        let direction = if self.nesterov { &gradient * (1.0 - self.momentum) + mean * self.momentum } else { mean };
        let steps = at.layout.split(&direction).into_iter().map(|matrix| {
            let factor = self.adjust.factor(matrix.shape()[0], matrix.shape()[1]);
            self.orthogonalized(&matrix) * (&at.rate * factor)
        });
        self.weight_decay.parameters(at) - at.layout.pack(&steps.collect::<Vec<_>>())
    }
}
