//! Convolutions and pooling, found again in sums and maxima over windows.

use crate::error::Result;
use crate::graph::{Contract, Dim, NodeRef, Op, ReduceOp, View};

use super::Writer;
use super::builder::{Value, int, sizes};
use super::contract::product;
use super::size::Size;
use super::trace::resolved;

/// Windows along one axis.
#[derive(Clone, Copy, Debug)]
struct Along {
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    after: usize,
    /// Of a transposed convolution: what its output has more at the end than the windows say.
    output_padding: usize,
}

/// A convolution.
pub(super) struct Convolution {
    x: NodeRef,
    weight: NodeRef,
    /// Order of the weight's axes: (group,) outputs (of a transposed one: inputs), the other channels, kernel.
    order: Vec<usize>,
    /// Whether its result has an axis for the groups in front of that of the outputs.
    pub(super) grouped: bool,
    transposed: bool,
    windows: Vec<Along>,
}

/// The values that windows over the last axes are taken from, and these.
struct Windows {
    x: NodeRef,
    along: Vec<Along>,
    transposed: bool,
}

/// Windows of `[.., size..]` as `[.., count.., kernel..]`, as [`crate::ops::movement`] makes them.
fn windows_of(node: &NodeRef, fill: f64) -> Option<Windows> {
    let Op::View(view) = &node.op else { return None };
    let x = resolved(&node.inputs[0]);
    let spatial = node.shape.rank().checked_sub(x.shape.rank())?;
    let first = x.shape.rank().checked_sub(spatial).filter(|&first| spatial > 0 && first >= 2)?;
    let kept = (0..first).all(|axis| view.dims[axis] == Dim::axis(axis) && x.shape[axis] == node.shape[axis]);
    if !kept || view.fill.to_f64().to_bits() != fill.to_bits() {
        return None;
    }
    let numbers = 0..spatial;
    let transposed = numbers.clone().any(|number| {
        let dim = &view.dims[first + number];
        dim.divisor > 1 || dim.terms.iter().any(|&(axis, factor)| axis == first + spatial + number && factor < 0)
    });
    let along = numbers.map(|number| along(view, node, x, (first + number, first + spatial + number), transposed));
    Some(Windows { x: x.clone(), along: along.collect::<Option<_>>()?, transposed })
}

/// Windows along axis `place`, whose elements are counted along axis `element`.
fn along(
    view: &View,
    node: &NodeRef,
    x: &NodeRef,
    (place, element): (usize, usize),
    transposed: bool,
) -> Option<Along> {
    let Dim { terms, offset, divisor } = &view.dims[place];
    if terms.iter().any(|&(axis, _)| axis != place && axis != element) {
        return None;
    }
    // terms of axes of size 1 may be missing
    let factor = |axis: usize| terms.iter().find(|term| term.0 == axis).map_or(1, |term| term.1);
    let (count, kernel, size) = (node.shape[place], node.shape[element], x.shape[place]);
    let positive = |number: i64| usize::try_from(number).ok();
    if transposed {
        let dilation = if kernel == 1 { 1 } else { positive(-factor(element))? };
        let (stride, padding) = (positive(*divisor)?, positive(*offset)?);
        let spread = size.checked_sub(1)? * stride + dilation * kernel.checked_sub(1)? + 1;
        let output_padding = (count + 2 * padding).checked_sub(spread)?;
        let fits = count == 1 || factor(place) == 1;
        let known = Along { kernel, stride, dilation, before: padding, after: padding, output_padding };
        // the standard wants less than a stride of it
        return (fits && output_padding < stride.max(dilation)).then_some(known);
    }
    let (stride, dilation) = (positive(factor(place))?, positive(factor(element))?);
    let before = positive(-offset)?;
    let span = dilation * kernel.checked_sub(1)? + 1;
    let after = (count.checked_sub(1)? * stride + span).saturating_sub(size + before);
    let fits = *divisor == 1 && stride > 0 && (size + before + after - span) / stride + 1 == count;
    fits.then_some(Along { kernel, stride, dilation, before, after, output_padding: 0 })
}

impl Writer<'_> {
    /// The convolution that a contraction is, if it is one.
    pub(super) fn convolution(&self, contract: &Contract, node: &NodeRef) -> Option<Convolution> {
        let (lhs, weight) = (resolved(&node.inputs[0]), resolved(&node.inputs[1]));
        let Windows { x, along, transposed } = windows_of(lhs, 0.0)?;
        let spatial = along.len();
        let first = x.shape.rank() - spatial;
        let grouped = match first {
            2 => false,
            3 => true,
            _ => return None,
        };
        let Contract { lhs: labels, rhs, out } = contract;
        let is_row = |label: &u8| out.contains(label) && !rhs.contains(label);
        let is_summed = |label: &u8| !out.contains(label);
        let roles = is_row(&labels[0])
            && (!grouped || out.contains(&labels[1]) && rhs.contains(&labels[1]))
            && is_summed(&labels[first - 1])
            && labels[first..first + spatial].iter().all(is_row)
            && labels[first + spatial..].iter().all(is_summed);
        // [batch, (group,) outputs, places]
        let outputs = *out.get(first - 1)?;
        let expected = [&labels[..first - 1], &[outputs], &labels[first..first + spatial]].concat();
        if !roles || out[..] != expected || labels.contains(&outputs) {
            return None;
        }
        let channels = if transposed { [labels[first - 1], outputs] } else { [outputs, labels[first - 1]] };
        let wanted = [&labels[1..first - 1], &channels, &labels[first + spatial..]].concat();
        let order: Option<Vec<usize>> = wanted.iter().map(|label| rhs.iter().position(|own| own == label)).collect();
        let order = order.filter(|order| order.len() == rhs.len())?;
        // of samples that have kernels of their own there are as many groups as samples
        let behind = if grouped { 1 } else { first };
        let fixed = self.traced.sizes(&x)[behind..].iter().all(|size| size.is_fixed());
        (fixed && node.dtype.is_float()).then(|| Convolution {
            x,
            weight: weight.clone(),
            order,
            grouped,
            transposed,
            windows: along,
        })
    }

    /// `[batch, (groups,) outputs, places]`, with a vector added along the channels of all groups.
    pub(super) fn convolve(&mut self, of: &Convolution, node: &NodeRef, bias: Option<&NodeRef>) -> Result<Value> {
        let x = self.whole(&of.x)?;
        let weight = self.whole(&of.weight)?;
        let weight = self.to.transpose(&weight, &of.order);
        let result = self.traced.sizes(node);
        let (mut groups, mut dims) = (1, result.clone());
        let (x, weight) = if of.grouped {
            groups = weight.dims[0].known().unwrap_or(1);
            dims = merged(&result, 1)?;
            let x = self.to.reshape(&x, &merged(&x.dims, 1)?)?;
            (x, self.to.reshape(&weight, &merged(&weight.dims, 0)?)?)
        } else {
            (x, weight)
        };
        let mut attributes = self.window_attributes(&of.windows);
        attributes.push(int("group", groups as i64));
        if of.transposed {
            let extra: Vec<usize> = of.windows.iter().map(|along| along.output_padding).collect();
            attributes.push(sizes("output_padding", &extra));
        }
        let bias = bias.map(|bias| self.whole(bias)).transpose()?;
        let mut inputs = vec![x.name.as_str(), &weight.name];
        inputs.extend(bias.iter().map(|bias| bias.name.as_str()));
        let name = if of.transposed { "ConvTranspose" } else { "Conv" };
        let value = self.to.value(name, &inputs, attributes, dims);
        self.to.reshape(&value, &result)
    }

    fn window_attributes(&self, windows: &[Along]) -> Vec<super::super::proto::AttributeProto> {
        let list = |of: fn(&Along) -> usize| windows.iter().map(of).collect::<Vec<_>>();
        let pads = [list(|along| along.before), list(|along| along.after)].concat();
        vec![
            sizes("kernel_shape", &list(|along| along.kernel)),
            sizes("strides", &list(|along| along.stride)),
            sizes("dilations", &list(|along| along.dilation)),
            sizes("pads", &pads),
        ]
    }

    /// The largest elements of windows: a reduction that keeps its axes.
    pub(super) fn max_pool(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some(windows) = self.pooled(node, ReduceOp::Max, f64::NEG_INFINITY) else { return Ok(None) };
        let attributes = self.window_attributes(&windows.along);
        self.pool("MaxPool", attributes, &windows, node).map(Some)
    }

    /// The means of windows, from their sums.
    pub(super) fn mean_pool(&mut self, sums: &NodeRef, divisor: f64) -> Result<Option<Value>> {
        let Some(windows) = self.pooled(sums, ReduceOp::Sum, 0.0) else { return Ok(None) };
        let elements: usize = windows.along.iter().map(|along| along.kernel).product();
        if elements as f64 != divisor || windows.along.iter().any(|along| along.dilation != 1) {
            return Ok(None);
        }
        let mut attributes = self.window_attributes(&windows.along);
        attributes.retain(|attribute| attribute.name != "dilations");
        attributes.push(int("count_include_pad", 1));
        self.pool("AveragePool", attributes, &windows, sums).map(Some)
    }

    /// The windows of `[batch, channels, size..]` that a reduction is over, if it is.
    fn pooled(&self, node: &NodeRef, wanted: ReduceOp, fill: f64) -> Option<Windows> {
        let Op::Reduce { op, axes } = &node.op else { return None };
        let windows = windows_of(resolved(&node.inputs[0]), fill)?;
        let (rank, spatial) = (windows.x.shape.rank(), windows.along.len());
        let over = axes.iter().copied().eq(rank..rank + spatial);
        let fixed = self.traced.sizes(&windows.x)[2..].iter().all(|size| size.is_fixed());
        (*op == wanted && rank == spatial + 2 && over && fixed && node.dtype.is_float() && !windows.transposed)
            .then_some(windows)
    }

    fn pool(
        &mut self,
        name: &str,
        attributes: Vec<super::super::proto::AttributeProto>,
        windows: &Windows,
        node: &NodeRef,
    ) -> Result<Value> {
        let x = self.whole(&windows.x)?;
        let sizes = self.traced.sizes(node);
        let value = self.to.value(name, &[&x.name], attributes, sizes[..x.dims.len()].to_vec());
        self.to.reshape(&value, &sizes)
    }
}

/// The sizes with that of `axis` and the next one as one.
fn merged(sizes: &[Size], axis: usize) -> Result<Vec<Size>> {
    Ok([&sizes[..axis], &[product(&sizes[axis..axis + 2])?], &sizes[axis + 2..]].concat())
}
