//! Weight decay, the same for every rule.

use crate::tensor::Tensor;

use super::rule::{Setting, Update};

/// A pull of the parameters towards zero, and where it enters. Every optimizer takes each kind; PyTorch's
/// `weight_decay` is the coupled one, except for AdamW, Muon and what is made with `decoupled_weight_decay=True`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum WeightDecay {
    /// None.
    #[default]
    None,
    /// The gradient gets this times the parameter added, before the optimizer's rule sees it: an L2 penalty.
    Coupled(f32),
    /// The parameter shrinks by the learning rate times this, beside what the gradient does (Loshchilov and Hutter,
    /// arXiv 1711.05101); with LAMB the step's direction gets this times the parameter added, before its length is set.
    Decoupled(f32),
}

impl WeightDecay {
    pub(super) fn setting(self) -> Setting {
        let factor = match self {
            Self::None => 0.0,
            Self::Coupled(factor) | Self::Decoupled(factor) => factor,
        };
        Setting::not_negative("weight_decay", factor)
    }

    /// The gradient of a step, with a coupled decay in it.
    pub(super) fn gradient(self, at: &Update<'_>) -> Tensor {
        match self {
            Self::Coupled(factor) => &at.gradient + &at.parameters * factor,
            Self::None | Self::Decoupled(_) => at.gradient.clone(),
        }
    }

    /// The parameters that a step starts from: shrunk by a decoupled decay.
    pub(super) fn parameters(self, at: &Update<'_>) -> Tensor {
        match self {
            Self::Decoupled(factor) => &at.parameters - &at.parameters * (&at.rate * factor),
            Self::None | Self::Coupled(_) => at.parameters.clone(),
        }
    }
}
