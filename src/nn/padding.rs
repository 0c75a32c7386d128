//! Padding as modules: `[batch, channels, ..]` or `[channels, ..]` with elements added around.

use crate::tensor::{PadMode, Tensor};
use crate::variables;

use super::Module;

/// Padding over one to three spatial axes: the struct, its names, and how it pads by (before, after) for each axis.
macro_rules! padding {
    ($($(#[$doc:meta])* $name:ident($one:ident, $two:ident, $three:ident) = |$input:ident, $widths:ident| $padded:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name<const AXES: usize>([(usize, usize); AXES]);

        #[doc = concat!("[`", stringify!($name), "`] of `[batch, channels, length]`.")]
        pub type $one = $name<1>;
        #[doc = concat!("[`", stringify!($name), "`] of `[batch, channels, height, width]`.")]
        pub type $two = $name<2>;
        #[doc = concat!("[`", stringify!($name), "`] of `[batch, channels, depth, height, width]`.")]
        pub type $three = $name<3>;

        impl<const AXES: usize> $name<AXES> {
            /// As many at every side.
            pub fn new(width: usize) -> Self {
                Self([(width, width); AXES])
            }

            /// (before, after) for each axis, from the first on; PyTorch names the last one first.
            pub fn sides(widths: [(usize, usize); AXES]) -> Self {
                Self(widths)
            }
        }

        variables!(impl[const AXES: usize] $name<AXES>);

        impl<const AXES: usize> Module for $name<AXES> {
            #[track_caller]
            fn forward(&self, $input: &Tensor) -> Tensor {
                let $widths = whole($input, &self.0, (0, 0));
                $padded
            }
        }
    )*};
}

padding! {
    /// The elements mirrored at the edge, which is not repeated.
    ReflectionPad(ReflectionPad1d, ReflectionPad2d, ReflectionPad3d) = |input, widths|
        input.pad_mode(&widths, PadMode::Reflect);
    /// The edge, again and again.
    ReplicationPad(ReplicationPad1d, ReplicationPad2d, ReplicationPad3d) = |input, widths|
        input.pad_mode(&widths, PadMode::Replicate);
    /// The elements from the other end.
    CircularPad(CircularPad1d, CircularPad2d, CircularPad3d) = |input, widths|
        input.pad_mode(&widths, PadMode::Circular);
    /// Zeros; [`ConstantPad`] can also cut.
    ZeroPad(ZeroPad1d, ZeroPad2d, ZeroPad3d) = |input, widths| {
        let signed = |&(before, after): &(usize, usize)| (before.cast_signed(), after.cast_signed());
        input.pad(&widths.iter().map(signed).collect::<Vec<_>>(), 0)
    };
}

/// Padding with one value; negative widths cut.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConstantPad<const AXES: usize> {
    widths: [(isize, isize); AXES],
    value: f64,
}

/// [`ConstantPad`] of `[batch, channels, length]`.
pub type ConstantPad1d = ConstantPad<1>;
/// [`ConstantPad`] of `[batch, channels, height, width]`.
pub type ConstantPad2d = ConstantPad<2>;
/// [`ConstantPad`] of `[batch, channels, depth, height, width]`.
pub type ConstantPad3d = ConstantPad<3>;

impl<const AXES: usize> ConstantPad<AXES> {
    /// As many at every side.
    pub fn new(width: isize, value: f64) -> Self {
        Self::sides([(width, width); AXES], value)
    }

    /// (before, after) for each axis, from the first on; PyTorch names the last one first.
    pub fn sides(widths: [(isize, isize); AXES], value: f64) -> Self {
        Self { widths, value }
    }
}

variables!(impl[const AXES: usize] ConstantPad<AXES>);

impl<const AXES: usize> Module for ConstantPad<AXES> {
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        input.pad(&whole(input, &self.widths, (0, 0)), self.value)
    }
}

/// The widths of all axes, given those of the last.
#[track_caller]
fn whole<T: Copy>(input: &Tensor, widths: &[(T, T)], none: (T, T)) -> Vec<(T, T)> {
    let axes = widths.len();
    let fits = input.rank() == axes + 1 || input.rank() == axes + 2;
    assert!(fits, "padding: {} is not [batch, channels, {axes} axes]", input.shape());
    let mut all = vec![none; input.rank() - axes];
    all.extend_from_slice(widths);
    all
}
