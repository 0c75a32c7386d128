//! Windows as tensors, and channels exchanged for space.

use crate::dtype::Scalar;
use crate::graph::Dim;
use crate::ops::conv::ConvOptions;
use crate::ops::movement::{self, Moved, Window};
use crate::ops::{adjoint, ok};
use crate::shape::Shape;

use super::Tensor;

impl Tensor {
    /// Sliding windows over the last axes, one [`Window`] each: `[.., size..]` → `[.., count.., kernel..]`; elements
    /// outside are `fill`.
    #[track_caller]
    #[must_use]
    pub fn windows(&self, windows: &[Window], fill: f64) -> Self {
        let moved = ok(movement::windows("windows", self.shape(), windows));
        self.moved(moved, Scalar::new(self.dtype(), fill))
    }

    /// Every window of `size` elements along `axis`, `step` apart, as a new last axis: PyTorch's `Tensor.unfold`.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(5, &Device::cpu());
    /// assert_eq!(x.unfold(0, 3, 2).to_vec::<i32>()?, [0, 1, 2, 2, 3, 4]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn unfold(&self, axis: isize, size: usize, step: usize) -> Self {
        let axis = self.axis("unfold", axis);
        let whole = self.shape()[axis];
        assert!(size <= whole && step > 0, "unfold: {size} elements by {step} along axis {axis} of {}", self.shape());
        let Moved { mut dims, shape } = movement::identity(self.shape());
        dims[axis] = Dim { terms: vec![(axis, step as i64), (self.rank(), 1)], offset: 0, divisor: 1 };
        let shape = movement::with_size(&shape, axis, (whole - size) / step + 1);
        self.moved_zero(Moved { dims, shape: [shape.dims(), &[size]].concat().into() })
    }

    /// The windows of a convolution as columns: `[batch, channels, height, width]` → `[batch, channels · kernel,
    /// positions]`. PyTorch's `nn.functional.unfold`; groups are ignored.
    ///
    /// # Panics
    ///
    /// If shapes do not fit, or the options are [`same`](ConvOptions::same).
    #[track_caller]
    #[must_use]
    pub fn im2col(&self, kernel: [usize; 2], options: &ConvOptions) -> Self {
        let moved = image_windows("im2col", self.shape(), kernel, options);
        let [batch, channels, rows, columns, ..] = *moved.shape.dims() else { unreachable!("six axes") };
        self.moved_zero(moved).permute([0, 1, 4, 5, 2, 3]).reshape([
            batch,
            channels * kernel[0] * kernel[1],
            rows * columns,
        ])
    }

    /// The adjoint of [`Tensor::im2col`]: columns added where they came from, into `[batch, channels, height, width]`
    /// of this height and width. PyTorch's `nn.functional.fold`.
    ///
    /// # Panics
    ///
    /// If shapes do not fit, or the options are [`same`](ConvOptions::same).
    #[track_caller]
    #[must_use]
    pub fn col2im(&self, size: [usize; 2], kernel: [usize; 2], options: &ConvOptions) -> Self {
        let &[batch, rows, positions] = self.shape().dims() else {
            panic!("col2im: {} is not [batch, channels · kernel, positions]", self.shape())
        };
        let area = kernel[0] * kernel[1];
        assert!(area > 0 && rows.is_multiple_of(area), "col2im: {} with a kernel of {kernel:?}", self.shape());
        let image = [batch, rows / area, size[0], size[1]].into();
        let moved = image_windows("col2im", &image, kernel, options);
        let counts = [moved.shape[2], moved.shape[3]];
        assert!(
            counts[0] * counts[1] == positions,
            "col2im: {} has {positions} positions, not {counts:?}",
            self.shape()
        );
        let split = self.reshape([batch, rows / area, kernel[0], kernel[1], counts[0], counts[1]]);
        adjoint::adjoint(&moved.dims, &image, &split.permute([0, 1, 4, 5, 2, 3]))
    }

    /// `[.., channels · factor², height, width]` → `[.., channels, height · factor, width · factor]`.
    #[track_caller]
    #[must_use]
    pub fn pixel_shuffle(&self, factor: usize) -> Self {
        let (before, [channels, height, width]) = self.image("pixel_shuffle");
        let square = factor * factor;
        assert!(square > 0 && channels.is_multiple_of(square), "pixel_shuffle: {} by {factor}", self.shape());
        let outer: usize = before.iter().product();
        self.reshape([outer, channels / square, factor, factor, height, width])
            .permute([0, 1, 4, 2, 5, 3])
            .reshape([before, &[channels / square, height * factor, width * factor]].concat())
    }

    /// The inverse of [`Tensor::pixel_shuffle`].
    #[track_caller]
    #[must_use]
    pub fn pixel_unshuffle(&self, factor: usize) -> Self {
        let (before, [channels, height, width]) = self.image("pixel_unshuffle");
        assert!(
            factor > 0 && height.is_multiple_of(factor) && width.is_multiple_of(factor),
            "pixel_unshuffle: {} by {factor}",
            self.shape()
        );
        let outer: usize = before.iter().product();
        self.reshape([outer, channels, height / factor, factor, width / factor, factor])
            .permute([0, 1, 3, 5, 2, 4])
            .reshape([before, &[channels * factor * factor, height / factor, width / factor]].concat())
    }

    /// Channel `i` of group `g` becomes channel `g` of group `i`: `[batch, channels, ..]`.
    #[track_caller]
    #[must_use]
    pub fn channel_shuffle(&self, groups: usize) -> Self {
        assert!(
            self.rank() >= 2 && groups > 0 && self.shape()[1].is_multiple_of(groups),
            "channel_shuffle: {} in {groups} groups",
            self.shape()
        );
        self.unflatten(1, [groups.cast_signed(), -1]).transpose(1, 2).flatten(1, 2)
    }

    /// The axes before the last three, and these.
    #[track_caller]
    fn image(&self, name: &str) -> (&[usize], [usize; 3]) {
        match self.shape().dims() {
            [before @ .., channels, height, width] => (before, [*channels, *height, *width]),
            _ => panic!("{name}: {} is not [.., channels, height, width]", self.shape()),
        }
    }
}

#[track_caller]
fn image_windows(name: &str, image: &Shape, kernel: [usize; 2], options: &ConvOptions) -> Moved {
    assert!(image.rank() == 4, "{name}: {image} is not [batch, channels, height, width]");
    assert!(!options.same, "{name}: `same` is for convolutions; say padding");
    ok(movement::windows(name, image, &ok(options.windows(name, &kernel))))
}
