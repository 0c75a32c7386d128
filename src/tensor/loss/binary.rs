//! Yes or no, for each element.

use super::{Reduction, Tensor};

const LOGITS: &str = "binary_cross_entropy_with_logits";

/// What [`Tensor::binary_cross_entropy_with_logits_with`] can do beyond the plain mean; nothing of it by default.
#[derive(Clone, Debug, Default)]
pub struct BinaryCrossEntropy {
    /// Multiplies the losses; broadcasts to their shape.
    pub weight: Option<Tensor>,
    /// Multiplies the part of the target that is yes; broadcasts to the shape of the logits. More than 1 finds more of
    /// them.
    pub pos_weight: Option<Tensor>,
    /// What becomes of the losses. A mean is over the number of elements, whatever the weights.
    pub reduction: Reduction,
}

impl BinaryCrossEntropy {
    #[track_caller]
    fn reduce(&self, name: &str, losses: Tensor) -> Tensor {
        match &self.weight {
            Some(weight) => self.reduction.apply(&(&losses * spread(name, weight, &losses))),
            None => self.reduction.apply(&losses),
        }
    }
}

/// Weights in the shape of what they are for.
#[track_caller]
fn spread(name: &str, weight: &Tensor, like: &Tensor) -> Tensor {
    let (own, whole) = (weight.shape(), like.shape());
    let fits = own.broadcast(whole).as_ref() == Some(whole);
    assert!(fits, "{name}: {whole} with weights {own}");
    weight.expand(whole)
}

impl Tensor {
    /// The cross-entropy of `sigmoid(self)` and the probabilities `target`, without overflow:
    /// `t · ln(1 + e^-x) + (1 − t) · ln(1 + e^x)`.
    #[track_caller]
    #[must_use]
    pub fn binary_cross_entropy_with_logits(&self, target: &Self, reduction: Reduction) -> Self {
        let options = BinaryCrossEntropy { reduction, ..BinaryCrossEntropy::default() };
        self.binary_cross_entropy_with_logits_with(target, &options)
    }

    /// As [`Tensor::binary_cross_entropy_with_logits`], with weights:
    /// `weight · (pos_weight · t · ln(1 + e^-x) + (1 − t) · ln(1 + e^x))`.
    #[track_caller]
    #[must_use]
    pub fn binary_cross_entropy_with_logits_with(&self, target: &Self, options: &BinaryCrossEntropy) -> Self {
        let [x, target] = self.alike(LOGITS, target);
        // no difference of large numbers: a small loss keeps its digits on either side
        let mut yes = &target * (-&x).softplus();
        if let Some(pos_weight) = &options.pos_weight {
            yes *= spread(LOGITS, pos_weight, &x);
        }
        options.reduce(LOGITS, yes + (1.0 - target) * x.softplus())
    }

    /// The cross-entropy of the probabilities `self` and `target`: `-(t · ln p + (1 − t) · ln(1 − p))`. Logarithms are
    /// at least -100, and the gradient `(p − t) / (p (1 − p))` divides by at least 1e-12, as in PyTorch.
    #[track_caller]
    #[must_use]
    pub fn binary_cross_entropy(&self, target: &Self, reduction: Reduction) -> Self {
        let options = BinaryCrossEntropy { reduction, ..BinaryCrossEntropy::default() };
        self.binary_cross_entropy_with(target, &options)
    }

    /// As [`Tensor::binary_cross_entropy`], with a weight.
    ///
    /// # Panics
    ///
    /// If there is a `pos_weight`, which is for logits.
    #[track_caller]
    #[must_use]
    pub fn binary_cross_entropy_with(&self, target: &Self, options: &BinaryCrossEntropy) -> Self {
        let [p, target] = self.alike("binary_cross_entropy", target);
        assert!(options.pos_weight.is_none(), "binary_cross_entropy: pos_weight is for logits");
        let logarithms = |p: &Self| (p.log().maximum(-100.0), (-p).log1p().maximum(-100.0));
        let (yes, no) = logarithms(&p);
        let losses = -(&target * yes + (1.0 - &target) * no);
        let losses = losses.with_gradient(&[&p, &target], move |_, inputs, g| {
            let (p, t) = (&inputs[0], &inputs[1]);
            let (yes, no) = logarithms(p);
            // 1e-12 is 0 in f16
            let [p, t, own] = [p, t, g].map(Self::countable);
            let slope = (&p - t) / (&p * (1.0 - &p)).maximum(1e-12);
            vec![Some((own * slope).to_dtype(g.dtype())), Some(g * (no - yes))]
        });
        options.reduce("binary_cross_entropy", losses)
    }

    /// The focal loss of logits (Lin et al., arXiv 1708.02002), as torchvision's `sigmoid_focal_loss`: `alpha_t · (1 −
    /// p_t)^gamma · (-ln p_t)`, where `p_t` is the probability given to the target (0 or 1) and `alpha_t` is `alpha`
    /// for yes and `1 − alpha` for no. The paper's values are 0.25 and 2; a negative `alpha` leaves it out.
    #[track_caller]
    #[must_use]
    pub fn sigmoid_focal_loss(&self, target: &Self, alpha: f64, gamma: f64, reduction: Reduction) -> Self {
        let [x, target] = self.alike("sigmoid_focal_loss", target);
        let entropy = x.binary_cross_entropy_with_logits(&target, Reduction::None);
        // 1 − p_t, from both sides' own small probabilities instead of a difference from 1
        let missed = x.sigmoid() * (1.0 - &target) + (-&x).sigmoid() * &target;
        let mut losses = entropy * missed.pow(gamma);
        if alpha >= 0.0 {
            losses *= &target * alpha + (1.0 - target) * (1.0 - alpha);
        }
        reduction.apply(&losses)
    }

    /// `ln(1 + e^(-y x))`, for targets `y` of -1 and 1.
    #[track_caller]
    #[must_use]
    pub fn soft_margin_loss(&self, target: &Self, reduction: Reduction) -> Self {
        let [x, target] = self.alike("soft_margin_loss", target);
        reduction.apply(&(-(x * target)).softplus())
    }
}
