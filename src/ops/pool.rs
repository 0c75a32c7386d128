//! Pooling: how windows lie on the input.

use crate::error::Result;
use crate::shape::Shape;

use super::movement::Window;
use super::shape_error;

/// How windows are laid over the spatial axes, alike or different along each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOptions {
    /// Elements in a window.
    pub kernel: Vec<usize>,
    /// From one window to the next; empty: as the kernel.
    pub stride: Vec<usize>,
    /// Elements outside at both ends, at most half of the kernel.
    pub padding: Vec<usize>,
    /// From one element of a window to the next; of maxima only.
    pub dilation: Vec<usize>,
    /// A last window that begins inside, but does not end there, counts too.
    pub ceil_mode: bool,
    /// Means count the padding as zeros.
    pub count_include_pad: bool,
    /// What sums are divided by instead of the number of elements.
    pub divisor: Option<usize>,
}

impl PoolOptions {
    /// Windows of this size, one number or one for each axis, side by side; the rest is PyTorch's default.
    pub fn new(kernel: impl Into<Shape>) -> Self {
        Self {
            kernel: kernel.into().to_vec(),
            stride: Vec::new(),
            padding: vec![0],
            dilation: vec![1],
            ceil_mode: false,
            count_include_pad: true,
            divisor: None,
        }
    }

    /// With this stride, one number or one for each axis.
    #[must_use]
    pub fn stride(mut self, stride: impl Into<Shape>) -> Self {
        self.stride = stride.into().to_vec();
        self
    }

    /// With this padding, one number or one for each axis.
    #[must_use]
    pub fn padding(mut self, padding: impl Into<Shape>) -> Self {
        self.padding = padding.into().to_vec();
        self
    }

    /// With this dilation, one number or one for each axis.
    #[must_use]
    pub fn dilation(mut self, dilation: impl Into<Shape>) -> Self {
        self.dilation = dilation.into().to_vec();
        self
    }

    /// With a last window that does not end inside.
    #[must_use]
    pub fn ceil_mode(mut self) -> Self {
        self.ceil_mode = true;
        self
    }

    /// With means over the elements inside only.
    #[must_use]
    pub fn without_padding(mut self) -> Self {
        self.count_include_pad = false;
        self
    }

    /// With sums divided by this number.
    #[must_use]
    pub fn divisor(mut self, divisor: usize) -> Self {
        self.divisor = Some(divisor);
        self
    }

    /// The windows along the last `spatial` axes of `[batch, channels, ..]` or `[channels, ..]`, and how many there
    /// are.
    ///
    /// # Errors
    ///
    /// If numbers and axes differ, a dilation is 0, padding is more than half of the kernel, or no window fits.
    pub fn windows(&self, name: &str, shape: &Shape, spatial: usize) -> Result<(Vec<Window>, Vec<usize>)> {
        if shape.rank() != spatial + 1 && shape.rank() != spatial + 2 {
            return shape_error(format!("{name}: {shape} is not [batch, channels, {spatial} axes]"));
        }
        let option = |values: &[usize], what: &str| match values {
            [one] => Ok(vec![*one; spatial]),
            several if several.len() == spatial => Ok(several.to_vec()),
            _ => shape_error(format!("{name}: {what} {values:?} for {spatial} axes")),
        };
        let kernel = option(&self.kernel, "kernel")?;
        let stride = if self.stride.is_empty() { kernel.clone() } else { option(&self.stride, "stride")? };
        let padding = option(&self.padding, "padding")?;
        let dilation = option(&self.dilation, "dilation")?;
        let (mut windows, mut counts) = (Vec::new(), Vec::new());
        for axis in 0..spatial {
            let window =
                Window { kernel: kernel[axis], stride: stride[axis], padding: padding[axis], dilation: dilation[axis] };
            window.check(name)?;
            if window.padding > window.kernel / 2 {
                return shape_error(format!("{name}: padding {} for a kernel of {}", window.padding, window.kernel));
            }
            let size = shape[shape.rank() - spatial + axis];
            match self.count(&window, size) {
                Some(count) => counts.push(count),
                None => return shape_error(format!("{name}: a window of {window:?} does not fit into {shape}")),
            }
            windows.push(window);
        }
        Ok((windows, counts))
    }

    fn count(&self, window: &Window, size: usize) -> Option<usize> {
        if !self.ceil_mode {
            return window.count(size);
        }
        // as many as begin before the end, the last one of which may reach beyond it, unless it begins in the padding
        // behind
        let room = window.padded(size)?.checked_add(window.stride)?.checked_sub(window.span()?)?;
        let count = room.checked_next_multiple_of(window.stride)? / window.stride;
        let begins_inside = count.checked_sub(1)?.checked_mul(window.stride)? < size + window.padding;
        Some(if begins_inside { count } else { count - 1 }).filter(|&count| count > 0)
    }
}
