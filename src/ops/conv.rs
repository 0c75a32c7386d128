//! Convolution as a contraction over windows: what is viewed how, and the shapes.

use crate::error::Result;
use crate::shape::Shape;

use super::movement::Window;
use super::shape_error;

/// How kernels move over the input, alike or different along each spatial axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvOptions {
    /// From one position to the next.
    pub stride: Vec<usize>,
    /// Zeros added at both ends.
    pub padding: Vec<usize>,
    /// From one kernel element to the next, at least 1.
    pub dilation: Vec<usize>,
    /// Channels are cut into this many groups that do not mix.
    pub groups: usize,
    /// Added to one end of the output of a transposed convolution; smaller than the stride or the dilation.
    pub output_padding: Vec<usize>,
    /// Instead of `padding`, as many zeros as keep the size, for a stride of 1; one more at the end if the number is
    /// odd.
    pub same: bool,
}

impl Default for ConvOptions {
    fn default() -> Self {
        Self { stride: vec![1], padding: vec![0], dilation: vec![1], groups: 1, output_padding: vec![0], same: false }
    }
}

impl ConvOptions {
    /// With this stride along every axis.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride = vec![stride];
        self
    }

    /// With this padding along every axis.
    #[must_use]
    pub fn padding(mut self, padding: usize) -> Self {
        self.padding = vec![padding];
        self
    }

    /// With this dilation along every axis.
    #[must_use]
    pub fn dilation(mut self, dilation: usize) -> Self {
        self.dilation = vec![dilation];
        self
    }

    /// With this many groups of channels.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// With this output padding along every axis.
    #[must_use]
    pub fn output_padding(mut self, output_padding: usize) -> Self {
        self.output_padding = vec![output_padding];
        self
    }

    /// With padding that keeps the size.
    #[must_use]
    pub fn same(mut self) -> Self {
        self.same = true;
        self
    }

    /// The zeros before and after along each axis that keep the size for a kernel of these sizes.
    pub(crate) fn same_widths(&self, name: &str, kernel: &[usize]) -> Result<Vec<(usize, usize)>> {
        let windows = self.windows(name, kernel)?;
        if windows.iter().any(|window| window.stride != 1) {
            return shape_error(format!("{name}: padding keeps the size only with stride 1, not {:?}", self.stride));
        }
        let width = |window: &Window| {
            let total = window.dilation * window.kernel.saturating_sub(1);
            (total / 2, total - total / 2)
        };
        Ok(windows.iter().map(width).collect())
    }

    /// The windows of a kernel of these sizes.
    pub(crate) fn windows(&self, name: &str, kernel: &[usize]) -> Result<Vec<Window>> {
        let option = |what: &str, values: &[usize]| per_axis(name, what, values, kernel.len());
        let stride = option("stride", &self.stride)?;
        let padding = option("padding", &self.padding)?;
        let dilation = option("dilation", &self.dilation)?;
        let window = |axis: usize| {
            let window =
                Window { kernel: kernel[axis], stride: stride[axis], padding: padding[axis], dilation: dilation[axis] };
            window.check(name).map(|()| window)
        };
        (0..kernel.len()).map(window).collect()
    }
}

/// The numbers of an option for so many axes: one for all of them, or one for each.
fn per_axis(name: &str, what: &str, values: &[usize], axes: usize) -> Result<Vec<usize>> {
    match values {
        [one] => Ok(vec![*one; axes]),
        several if several.len() == axes => Ok(several.to_vec()),
        _ => shape_error(format!("{name}: {what} {values:?} for {axes} axes")),
    }
}

/// A checked convolution.
#[derive(Debug)]
pub struct Conv {
    /// Windows along each spatial axis.
    pub windows: Vec<Window>,
    /// Groups, input channels of one group, output channels of one group.
    pub channels: [usize; 3],
    /// Spatial sizes of the output.
    pub sizes: Vec<usize>,
}

/// A convolution of `[batch, inputs, size..]` with `[outputs, inputs / groups, kernel..]`.
///
/// # Errors
///
/// If ranks or channels do not fit, or no window does.
pub fn conv(name: &str, input: &Shape, weight: &Shape, spatial: usize, options: &ConvOptions) -> Result<Conv> {
    let groups = check(name, input, weight, spatial, options)?;
    let (inputs, outputs, group_inputs) = (input[1], weight[0], weight[1]);
    if inputs != group_inputs * groups || !outputs.is_multiple_of(groups) {
        return shape_error(format!(
            "{name}: {input} x {weight}, {inputs} channels != {group_inputs} x {groups} groups"
        ));
    }
    let windows = options.windows(name, &weight[2..])?;
    let count = |(window, &size): (&Window, &usize)| window.count(size);
    match windows.iter().zip(&input[2..]).map(count).collect() {
        Some(sizes) => Ok(Conv { windows, channels: [groups, group_inputs, outputs / groups], sizes }),
        None => shape_error(format!("{name}: {input} x {weight}, the kernel does not fit")),
    }
}

/// A transposed convolution of `[batch, inputs, size..]` with `[inputs, outputs / groups, kernel..]`.
///
/// # Errors
///
/// If ranks or channels do not fit, an output padding is neither smaller than its stride nor than its dilation, or the
/// output would be empty.
pub fn conv_transpose(
    name: &str,
    input: &Shape,
    weight: &Shape,
    spatial: usize,
    options: &ConvOptions,
) -> Result<Conv> {
    let groups = check(name, input, weight, spatial, options)?;
    if options.same {
        return shape_error(format!("{name}: `same` is for convolutions; say padding and output_padding"));
    }
    let (inputs, group_outputs) = (input[1], weight[1]);
    if inputs != weight[0] || !inputs.is_multiple_of(groups) {
        return shape_error(format!(
            "{name}: {input} x {weight}, {inputs} channels != {} or no multiple of {groups} groups",
            weight[0]
        ));
    }
    let windows = options.windows(name, &weight[2..])?;
    let output_padding = per_axis(name, "output_padding", &options.output_padding, spatial)?;
    let mut sizes = Vec::new();
    for (axis, window) in windows.iter().enumerate() {
        let (extra, Window { stride, dilation, .. }) = (output_padding[axis], window);
        if extra >= *stride.max(dilation) {
            return shape_error(format!(
                "{name}: {input} x {weight}, output_padding {extra} is not below the larger of stride {stride} and \
                 dilation {dilation}"
            ));
        }
        match window.transposed_size(input[2 + axis], output_padding[axis]) {
            Some(size) if size > 0 => sizes.push(size),
            _ => return shape_error(format!("{name}: {input} x {weight}, the output would be empty")),
        }
    }
    Ok(Conv { windows, channels: [groups, inputs / groups, group_outputs], sizes })
}

/// Ranks and groups.
fn check(name: &str, input: &Shape, weight: &Shape, spatial: usize, options: &ConvOptions) -> Result<usize> {
    if input.rank() != spatial + 2 || weight.rank() != spatial + 2 {
        return shape_error(format!("{name}: {input} x {weight}, both need {} axes", spatial + 2));
    }
    if options.groups == 0 {
        return shape_error(format!("{name}: 0 groups"));
    }
    Ok(options.groups)
}
