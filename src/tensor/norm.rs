//! Normalisation: values moved to mean 0 and variance 1, with a closed-form gradient.

use crate::ops::ok;
use crate::ops::resolve_axes;

use super::Tensor;

/// What [`Tensor::batch_norm`] returns.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// The normalised values, `[batch, channels, ...]`.
    pub output: Tensor,
    /// The batch's mean of each channel, `[channels]`.
    pub mean: Tensor,
    /// The batch's variance of each channel by `n - 1`, for running statistics, `[channels]`.
    pub variance: Tensor,
}

/// Normalised values with the mean and variance (by `n`) they had; both keep their axes, and are f32 where the values
/// are f16.
struct Normalized {
    values: Tensor,
    mean: Tensor,
    variance: Tensor,
}

impl Tensor {
    /// `(x - mean) / sqrt(variance + epsilon)` over `axes`.
    #[track_caller]
    fn standardize(&self, axes: &[isize], epsilon: f64) -> Normalized {
        let x = self.countable();
        let mean = x.mean_keepdim(axes);
        let centered = &x - &mean;
        let variance = centered.square().mean_keepdim(axes);
        let scale = (&variance + epsilon).rsqrt();
        let axes = axes.to_vec();
        let values = (centered * &scale).with_gradient(&[&x, &scale], move |y, inputs, g| {
            let along = g.mean_keepdim(axes.as_slice());
            let stretch = (g * y).mean_keepdim(axes.as_slice());
            vec![Some(&inputs[1] * (g - along - y * stretch)), None]
        });
        Normalized { values: values.to_dtype(self.dtype()), mean, variance }
    }

    /// `self · weight + bias`, each of a shape that broadcasts.
    #[track_caller]
    fn affine(&self, weight: Option<&Self>, bias: Option<&Self>) -> Self {
        let scaled = match weight {
            Some(weight) => self * weight,
            None => self.clone(),
        };
        match bias {
            Some(bias) => scaled + bias,
            None => scaled,
        }
    }

    /// `self · weight + bias`, both `[channels]`.
    #[track_caller]
    fn channel_affine(&self, name: &str, weight: Option<&Self>, bias: Option<&Self>) -> Self {
        let scaled = match weight {
            Some(weight) => self * self.per_channel(name, weight),
            None => self.clone(),
        };
        match bias {
            Some(bias) => scaled + self.per_channel(name, bias),
            None => scaled,
        }
    }

    /// `[channels]` shaped so that it broadcasts along axis 1 of `self`.
    #[track_caller]
    fn per_channel(&self, name: &str, values: &Self) -> Self {
        assert!(
            self.rank() >= 2 && *values.shape() == [self.shape()[1]].into(),
            "{name}: {} with statistics or weights {}, not [channels]",
            self.shape(),
            values.shape()
        );
        let mut shape = vec![1; self.rank() - 1];
        shape[0] = self.shape()[1];
        values.reshape(shape)
    }

    /// Normalises over the last `axes` axes, then `· weight + bias` of those axes' shape.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::from_slice(&[1.0_f32, 3.0, 10.0, 30.0], [2, 2], &Device::cpu())?;
    /// assert_eq!(x.layer_norm(1, None, None, 0.0).to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn layer_norm(&self, axes: usize, weight: Option<&Self>, bias: Option<&Self>, epsilon: f64) -> Self {
        assert!(axes > 0 && axes <= self.rank(), "layer_norm: {axes} axes of {}", self.shape());
        let over: Vec<isize> = (1..=axes.cast_signed()).map(|axis| -axis).collect();
        let expected = &self.shape()[self.rank() - axes..];
        for tensor in [weight, bias].into_iter().flatten() {
            assert!(
                tensor.shape().dims() == expected,
                "layer_norm: {} over its last {axes} axes with weight or bias {}",
                self.shape(),
                tensor.shape()
            );
        }
        self.standardize(&over, epsilon).values.affine(weight, bias)
    }

    /// `x / sqrt(mean(x²) + epsilon) · weight` over the last axis.
    #[track_caller]
    #[must_use]
    pub fn rms_norm(&self, weight: Option<&Self>, epsilon: f64) -> Self {
        let x = self.countable();
        let scale = (x.square().mean_keepdim(-1) + epsilon).rsqrt();
        (x * scale).to_dtype(self.dtype()).affine(weight, None)
    }

    /// Normalises each channel of `[batch, channels, ...]` over this batch, then `· weight + bias`, both `[channels]`.
    #[track_caller]
    #[must_use]
    pub fn batch_norm(&self, weight: Option<&Self>, bias: Option<&Self>, epsilon: f64) -> BatchNorm {
        assert!(self.rank() >= 2, "batch_norm: {} is not [batch, channels, ...]", self.shape());
        let axes: Vec<isize> = (0..self.rank().cast_signed()).filter(|&axis| axis != 1).collect();
        let Normalized { values, mean, variance } = self.standardize(&axes, epsilon);
        let channels = self.shape()[1];
        let count = ok(resolve_axes("batch_norm", self.shape(), &axes))
            .iter()
            .map(|&axis| self.shape()[axis])
            .product::<usize>();
        let unbiased = count as f64 / count.saturating_sub(1) as f64;
        BatchNorm {
            output: values.channel_affine("batch_norm", weight, bias),
            mean: mean.reshape([channels]).to_dtype(self.dtype()),
            variance: (variance.reshape([channels]) * unbiased).to_dtype(self.dtype()),
        }
    }

    /// Normalises each channel of `[batch, channels, ...]` with given statistics, all `[channels]`.
    #[track_caller]
    #[must_use]
    pub fn batch_norm_eval(
        &self,
        mean: &Self,
        variance: &Self,
        weight: Option<&Self>,
        bias: Option<&Self>,
        epsilon: f64,
    ) -> Self {
        let scale = self.per_channel("batch_norm_eval", &(variance + epsilon).rsqrt());
        let centered = self - self.per_channel("batch_norm_eval", mean);
        (centered * scale).channel_affine("batch_norm_eval", weight, bias)
    }

    /// Normalises each of `groups` groups of channels of `[batch, channels, ...]`, then `· weight + bias`, both
    /// `[channels]`.
    #[track_caller]
    #[must_use]
    pub fn group_norm(&self, groups: usize, weight: Option<&Self>, bias: Option<&Self>, epsilon: f64) -> Self {
        assert!(
            self.rank() >= 2 && groups > 0 && self.shape()[1].is_multiple_of(groups),
            "group_norm: {} in {groups} groups of channels",
            self.shape()
        );
        let [batch, channels] = [self.shape()[0], self.shape()[1]];
        let rest: usize = self.shape()[2..].iter().product();
        let grouped = self.reshape([batch, groups, channels / groups * rest]);
        let values = grouped.standardize(&[-1], epsilon).values.reshape(self.shape());
        values.channel_affine("group_norm", weight, bias)
    }

    /// `x / (k + alpha · m)^beta`, where `m` is the mean of `x²` over `size` neighbouring channels of `[batch,
    /// channels, ..]`, zeros outside (Krizhevsky, Sutskever, Hinton 2012; PyTorch's defaults are alpha 1e-4, beta 0.75,
    /// k 1).
    #[track_caller]
    #[must_use]
    pub fn local_response_norm(&self, size: usize, alpha: f64, beta: f64, k: f64) -> Self {
        assert!(self.rank() >= 2 && size > 0, "local_response_norm: {size} channels of {}", self.shape());
        let mut widths = vec![(0, 0); self.rank()];
        widths[1] = ((size / 2).cast_signed(), ((size - 1) / 2).cast_signed());
        let x = self.countable();
        let mean = x.square().pad(&widths, 0.0).unfold(1, size, 1).mean_dim(-1);
        (x / (mean * alpha + k).pow(beta)).to_dtype(self.dtype())
    }

    /// Normalises each channel of each sample of `[batch, channels, ...]`, then `· weight + bias`, both `[channels]`.
    #[track_caller]
    #[must_use]
    pub fn instance_norm(&self, weight: Option<&Self>, bias: Option<&Self>, epsilon: f64) -> Self {
        assert!(self.rank() >= 2, "instance_norm: {} is not [batch, channels, ...]", self.shape());
        self.group_norm(self.shape()[1], weight, bias, epsilon)
    }
}
