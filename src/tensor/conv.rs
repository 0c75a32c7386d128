//! Convolutions: contractions over windows of the input. No window is ever written to memory.

use crate::graph::refuse;
use crate::ops::conv::{self, Conv, ConvOptions};
use crate::ops::{movement, ok};

use super::Tensor;

// labels of the contraction's axes
const BATCH: u8 = 0;
const GROUP: u8 = 1;
const INPUT: u8 = 2;
const OUTPUT: u8 = 3;
const SPACE: u8 = 16;
const KERNEL: u8 = 32;

impl Tensor {
    /// `[batch, inputs, length]`, `[outputs, inputs / groups, kernel]` → `[batch, outputs, positions]`. As for all
    /// convolutions, the batch's axis may be missing.
    ///
    /// ```
    /// # use brasa::{Device, Tensor, ops::conv::ConvOptions};
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 4.0], [1, 1, 3], &device)?;
    /// let difference = Tensor::from_slice(&[-1.0_f32, 1.0], [1, 1, 2], &device)?;
    /// assert_eq!(x.conv1d(&difference, None, &ConvOptions::default()).to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn conv1d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve("conv1d", 1, weight, bias, options)
    }

    /// `[batch, inputs, height, width]`, `[outputs, inputs / groups, kernel, kernel]` → `[batch, outputs, rows,
    /// columns]`.
    #[track_caller]
    #[must_use]
    pub fn conv2d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve("conv2d", 2, weight, bias, options)
    }

    /// As [`Tensor::conv2d`] with three spatial axes.
    #[track_caller]
    #[must_use]
    pub fn conv3d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve("conv3d", 3, weight, bias, options)
    }

    /// The transpose of [`Tensor::conv1d`]: `[batch, inputs, length]`, `[inputs, outputs / groups, kernel]`.
    #[track_caller]
    #[must_use]
    pub fn conv_transpose1d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve_transposed("conv_transpose1d", 1, weight, bias, options)
    }

    /// The transpose of [`Tensor::conv2d`]: `[batch, inputs, height, width]`, `[inputs, outputs / groups, kernel,
    /// kernel]`.
    #[track_caller]
    #[must_use]
    pub fn conv_transpose2d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve_transposed("conv_transpose2d", 2, weight, bias, options)
    }

    /// As [`Tensor::conv_transpose2d`] with three spatial axes.
    #[track_caller]
    #[must_use]
    pub fn conv_transpose3d(&self, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        self.convolve_transposed("conv_transpose3d", 3, weight, bias, options)
    }

    #[track_caller]
    fn convolve(&self, name: &str, spatial: usize, weight: &Self, bias: Option<&Self>, options: &ConvOptions) -> Self {
        if self.rank() == spatial + 1 {
            return self.unsqueeze(0).convolve(name, spatial, weight, bias, options).squeeze(0);
        }
        if options.same && weight.rank() == spatial + 2 {
            let widths = ok(options.same_widths(name, &weight.shape()[2..]));
            let mut padding = vec![(0, 0); self.rank() - spatial];
            padding.extend(widths.iter().map(|&(before, after)| (before.cast_signed(), after.cast_signed())));
            let options = ConvOptions { padding: vec![0], same: false, ..options.clone() };
            return self.pad(&padding, 0).convolve(name, spatial, weight, bias, &options);
        }
        let conv = ok(conv::conv(name, self.shape(), weight.shape(), spatial, options));
        let [groups, inputs, outputs] = conv.channels;
        let x = self.grouped(&[groups, inputs]);
        let windows = x.moved_zero(ok(movement::windows(name, x.shape(), &conv.windows)));
        let weight = weight.reshape(group_shape(&[outputs, inputs], groups, &weight.shape()[2..]));
        windows.contract_windows(name, &weight, &conv, &[OUTPUT, INPUT], bias)
    }

    #[track_caller]
    fn convolve_transposed(
        &self,
        name: &str,
        spatial: usize,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions,
    ) -> Self {
        if self.rank() == spatial + 1 {
            return self.unsqueeze(0).convolve_transposed(name, spatial, weight, bias, options).squeeze(0);
        }
        let conv = ok(conv::conv_transpose(name, self.shape(), weight.shape(), spatial, options));
        let [groups, inputs, outputs] = conv.channels;
        let x = self.grouped(&[groups, inputs]);
        let windows = x.moved_zero(movement::transposed_windows(x.shape(), &conv.windows, &conv.sizes));
        let weight = weight.reshape(group_shape(&[inputs, outputs], groups, &weight.shape()[2..]));
        windows.contract_windows(name, &weight, &conv, &[INPUT, OUTPUT], bias)
    }

    /// The channel axis cut into these sizes; one group has no axis of its own.
    #[track_caller]
    fn grouped(&self, channels: &[usize; 2]) -> Self {
        if channels[0] == 1 {
            return self.clone();
        }
        self.reshape([&self.shape()[..1], channels, &self.shape()[2..]].concat())
    }

    /// `[batch, (group,) input, space.., kernel..] · [(group,) channel, channel, kernel..]` → `[batch, output,
    /// space..]`.
    #[track_caller]
    fn contract_windows(
        &self,
        name: &str,
        weight: &Self,
        conv: &Conv,
        channel_labels: &[u8; 2],
        bias: Option<&Self>,
    ) -> Self {
        let [groups, _, outputs] = conv.channels;
        let spatial = conv.windows.len() as u8;
        let space: Vec<u8> = (SPACE..SPACE + spatial).collect();
        let kernel: Vec<u8> = (KERNEL..KERNEL + spatial).collect();
        let group: &[u8] = if groups == 1 { &[] } else { &[GROUP] };
        let product = self.contract_for(
            name,
            weight,
            &[&[BATCH], group, &[INPUT], &space, &kernel].concat(),
            &[group, channel_labels, &kernel].concat(),
            &[&[BATCH], group, &[OUTPUT], &space].concat(),
        );
        let product = product.reshape([&[self.shape()[0], groups * outputs], conv.sizes.as_slice()].concat());
        match bias {
            None => product,
            Some(bias) => {
                if *bias.shape() != [groups * outputs].into() {
                    refuse(format_args!("{name}: the bias is {}, not [{}]", bias.shape(), groups * outputs));
                }
                let shape = [&[groups * outputs], vec![1; conv.sizes.len()].as_slice()].concat();
                product + bias.operand_of_product().reshape(shape)
            }
        }
    }
}

/// A weight's shape with its first channel axis (outputs, or inputs if transposed) cut into groups.
fn group_shape(channels: &[usize; 2], groups: usize, kernel: &[usize]) -> Vec<usize> {
    let group: &[usize] = if groups == 1 { &[] } else { &[groups] };
    [group, channels, kernel].concat()
}
