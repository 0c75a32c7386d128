//! Layers that other programs know by name, found again in the ops that they are made of.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Binary, NodeRef, Op, ReduceOp, Unary};
use crate::ops::reduce::keepdim_shape;

use super::Writer;
use super::builder::{Value, float, int, word};
use super::size::Size;
use super::trace::{Traced, resolved};
use super::views::is_expansion;

/// The two inputs of a binary op.
fn operands(node: &NodeRef, wanted: Binary) -> Option<[&NodeRef; 2]> {
    match node.op {
        Op::Binary(op) if op == wanted => Some([resolved(&node.inputs[0]), resolved(&node.inputs[1])]),
        _ => None,
    }
}

/// The input of an op of one.
fn operand(node: &NodeRef, wanted: Unary) -> Option<&NodeRef> {
    match node.op {
        Op::Unary(op) if op == wanted => Some(resolved(&node.inputs[0])),
        _ => None,
    }
}

/// The input of a reduction, and its axes.
fn reduction(node: &NodeRef, wanted: ReduceOp) -> Option<(&NodeRef, &[usize])> {
    match &node.op {
        Op::Reduce { op, axes } if *op == wanted => Some((resolved(&node.inputs[0]), axes)),
        _ => None,
    }
}

/// The number that a value is everywhere.
fn number(node: &NodeRef) -> Option<f64> {
    match node.op {
        Op::Const(value) => Some(value.to_f64()),
        _ => None,
    }
}

/// The value before it was broadcast.
fn unexpanded(node: &NodeRef) -> &NodeRef {
    let mut node = resolved(node);
    while let Op::View(view) = &node.op
        && is_expansion(view, node)
    {
        node = resolved(&node.inputs[0]);
    }
    node
}

/// The value before its axes were counted otherwise.
fn unshaped(node: &NodeRef) -> &NodeRef {
    let mut node = resolved(node);
    while matches!(node.op, Op::Reshape) {
        node = resolved(&node.inputs[0]);
    }
    node
}

/// The vector of `length` elements that a value is along the axis that `behind` others follow, the same everywhere else.
fn vector(node: &NodeRef, behind: usize, length: usize) -> Option<&NodeRef> {
    let node = unexpanded(node);
    let place = node.shape.rank().checked_sub(behind + 1)?;
    let along = node.shape.iter().enumerate().all(|(axis, &size)| size == if axis == place { length } else { 1 });
    let before = if node.shape.rank() == 1 { node } else { unshaped(node) };
    (along && *before.shape == [length]).then_some(before)
}

/// `(x, axes)` of a mean of floats over axes of fixed sizes, whether it keeps them or not.
fn mean<'n>(traced: &Traced, node: &'n NodeRef) -> Option<(&'n NodeRef, &'n [usize])> {
    let [sum, factor] = operands(node, Binary::Mul)?;
    let (x, axes) = reduction(unshaped(sum), ReduceOp::Sum)?;
    let sizes = traced.sizes(x);
    let count: Option<usize> = axes.iter().map(|&axis| sizes[axis].known()).product();
    let Op::Const(factor) = factor.op else { return None };
    let is_mean = node.dtype.is_float() && factor == crate::Scalar::new(node.dtype, 1.0 / count? as f64);
    is_mean.then_some((x, axes))
}

/// `1 / sqrt(x + epsilon)` → `(x, epsilon)`
fn inverse_root(node: &NodeRef) -> Option<(&NodeRef, f64)> {
    let [x, epsilon] = operands(operand(node, Unary::Rsqrt)?, Binary::Add)?;
    Some((x, number(epsilon)?))
}

/// `(x - mean) / sqrt(variance + epsilon)` with those of `x` itself.
struct Standardized<'a> {
    x: &'a NodeRef,
    axes: &'a [usize],
    epsilon: f64,
}

fn standardized<'n>(traced: &Traced, node: &'n NodeRef) -> Option<Standardized<'n>> {
    let [centered, scale] = operands(node, Binary::Mul)?;
    let [x, mean_of_x] = operands(centered, Binary::Sub)?;
    let (mean_of_x, scale) = (unexpanded(mean_of_x), unexpanded(scale));
    let (averaged, axes) = mean(traced, mean_of_x)?;
    let (variance, epsilon) = inverse_root(scale)?;
    let (squares, over) = mean(traced, variance)?;
    let [a, b] = operands(squares, Binary::Mul)?;
    let same = averaged.id == x.id && axes == over && a.id == centered.id && b.id == centered.id;
    // each lies along the axes that it is of
    let kept = keepdim_shape(&x.shape, axes);
    (same && mean_of_x.shape == kept && scale.shape == kept).then_some(Standardized { x, axes, epsilon })
}

/// The parts that are joined along an axis: each is padded to the whole, and they are added.
fn joined(node: &NodeRef) -> Option<(usize, Vec<&NodeRef>)> {
    let mut parts: Vec<(usize, &NodeRef)> = Vec::new();
    let mut along = None;
    let mut stack = vec![node];
    while let Some(part) = stack.pop() {
        if let Some(both) = operands(part, Binary::Add).or_else(|| operands(part, Binary::Or)) {
            stack.extend(both);
            continue;
        }
        let Op::View(view) = &part.op else { return None };
        let source = resolved(&part.inputs[0]);
        let neutral = if node.dtype.is_float() { -0.0_f64 } else { 0.0 };
        if view.fill.to_f64().to_bits() != neutral.to_bits() || source.shape.rank() != node.shape.rank() {
            return None;
        }
        let axis = (0..source.shape.rank()).find(|&axis| source.shape[axis] != node.shape[axis])?;
        let start = usize::try_from(-view.dims[axis].offset).ok()?;
        let placed = view.dims.iter().enumerate().all(|(number, dim)| {
            let offset = if number == axis { -(start as i64) } else { 0 };
            dim.terms[..] == [(number, 1)] && dim.divisor == 1 && dim.offset == offset
        });
        let others =
            (0..source.shape.rank()).all(|number| number == axis || source.shape[number] == node.shape[number]);
        // more parts than elements: they lie over each other
        if parts.len() >= node.shape[axis] {
            return None;
        }
        if !placed || !others || *along.get_or_insert(axis) != axis {
            return None;
        }
        parts.push((start, source));
    }
    let axis = along?;
    parts.sort_by_key(|part| part.0);
    let mut end = 0;
    for (start, part) in &parts {
        if *start != end {
            return None;
        }
        end += part.shape[axis];
    }
    (end == node.shape[axis]).then(|| (axis, parts.into_iter().map(|part| part.1).collect()))
}

/// `(x, axis, count)` of an `x` whose elements are repeated along an axis, each `count` times in a row.
fn repeated(node: &NodeRef) -> Option<(&NodeRef, usize, usize)> {
    let Op::Reshape = node.op else { return None };
    let wide = resolved(&node.inputs[0]);
    let Op::View(view) = &wide.op else { return None };
    let narrow = resolved(&wide.inputs[0]);
    let x = if matches!(narrow.op, Op::Reshape) { resolved(&narrow.inputs[0]) } else { narrow };
    let rank = x.shape.rank();
    let axis = (0..rank).find(|&axis| x.shape[axis] != node.shape.get(axis).copied().unwrap_or(0))?;
    let split = [&x.shape[..=axis], &[1], &x.shape[axis + 1..]].concat();
    let count = wide.shape.get(axis + 1).copied()?;
    let whole = [&x.shape[..axis], &[x.shape[axis] * count], &x.shape[axis + 1..]].concat();
    let fits = is_expansion(view, wide)
        && wide.shape.rank() == narrow.shape.rank()
        && *narrow.shape == split[..]
        && wide.shape[..=axis] == split[..=axis]
        && *node.shape == whole[..];
    fits.then_some((x, axis, count))
}

impl Writer<'_> {
    /// The layer that ends in this node, if it is one.
    pub(super) fn pattern(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        match node.op {
            Op::Binary(Binary::Add) if node.dtype != DType::Bool => {
                if let Some(value) = self.concat(node)? {
                    return Ok(Some(value));
                }
                if let Some(value) = self.biased(node)? {
                    return Ok(Some(value));
                }
                self.affine_norm(node)
            }
            Op::Binary(Binary::Or | Binary::Add) => self.concat(node),
            Op::Binary(Binary::Max) => self.relu(node),
            Op::Binary(Binary::Min) => self.clip(node),
            Op::Binary(Binary::Mul) => self.mean_or_norm(node),
            Op::Binary(Binary::Div) => self.softmax_or_pool(node),
            Op::Binary(Binary::Sub) => self.log_softmax(node),
            Op::Reduce { op: ReduceOp::Max, .. } => self.max_pool(node),
            Op::Reshape => self.upsampled(node),
            _ => Ok(None),
        }
    }

    /// Elements repeated along some of the axes behind the second.
    fn upsampled(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let rank = node.shape.rank();
        let (mut factors, mut x) = (vec![1.0; rank], node);
        while let Some((before, axis, count)) = repeated(x) {
            factors[axis] *= count as f32;
            x = before;
        }
        let is_fixed = |node: &NodeRef| {
            self.traced.sizes(node).get(2..).is_some_and(|sizes| sizes.iter().all(|size| size.is_fixed()))
        };
        let fixed = is_fixed(x) && is_fixed(node);
        if x.id == node.id || !fixed || factors[..2] != [1.0, 1.0] || !node.dtype.is_float() {
            return Ok(None);
        }
        let value = self.whole(x)?;
        let factors = self.to.factors(&factors);
        let how = [("mode", "nearest"), ("coordinate_transformation_mode", "asymmetric"), ("nearest_mode", "floor")];
        let attributes = how.map(|(name, value)| word(name, value)).to_vec();
        let sizes = self.traced.sizes(node);
        Ok(Some(self.to.value("Resize", &[&value.name, "", &factors], attributes, sizes)))
    }

    fn relu(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some([x, zero]) = operands(node, Binary::Max) else { return Ok(None) };
        if number(zero) != Some(0.0) || !node.dtype.is_float() {
            return Ok(None);
        }
        let x = self.value(x)?;
        Ok(Some(self.to.value("Relu", &[&x.name], Vec::new(), x.dims.clone())))
    }

    fn clip(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let bounds = || {
            let [raised, most] = operands(node, Binary::Min)?;
            let [x, least] = operands(raised, Binary::Max)?;
            match (&least.op, &most.op) {
                (Op::Const(least), Op::Const(most)) if least.to_f64() <= most.to_f64() => Some((x, *least, *most)),
                _ => None,
            }
        };
        let Some((x, least, most)) = bounds().filter(|_| node.dtype.is_float()) else { return Ok(None) };
        let (x, least, most) = (self.value(x)?, self.to.scalar(least), self.to.scalar(most));
        Ok(Some(self.to.value("Clip", &[&x.name, &least, &most], Vec::new(), x.dims.clone())))
    }

    fn concat(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some((axis, parts)) = joined(node) else { return Ok(None) };
        let mut names = Vec::new();
        for part in &parts {
            if !self.traced.sizes(part)[axis].is_fixed() {
                return Ok(None);
            }
            names.push(self.whole(part)?.name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let axis = vec![int("axis", axis as i64)];
        Ok(Some(self.to.value("Concat", &names, axis, self.traced.sizes(node))))
    }

    /// A product with a vector added: of a convolution along the channels, of matrices along the columns.
    fn biased(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some([product, bias]) = operands(node, Binary::Add) else { return Ok(None) };
        let contraction = unshaped(product);
        let Op::Contract(contract) = &contraction.op else { return Ok(None) };
        if !self.takes_bias(contract, contraction) {
            return Ok(None);
        }
        // groups of channels are counted as one axis behind the product; nothing else may have become of it
        let shape = &contraction.shape;
        let is_grouped = self.convolution(contract, contraction).is_some_and(|found| found.grouped);
        let whole =
            if is_grouped { [&shape[..1], &[shape[1] * shape[2]], &shape[3..]].concat() } else { shape.to_vec() };
        if *product.shape != whole[..] {
            return Ok(None);
        }
        let Some(bias) = vector(bias, product.shape.rank() - 2, product.shape[1]) else { return Ok(None) };
        let value = self.contract(contract, contraction, Some(bias))?;
        self.to.reshape(&value, &self.traced.sizes(product)).map(Some)
    }

    /// `standardized · weight + bias`, with statistics of its own, or given ones of each channel.
    fn affine_norm(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some([scaled, bias]) = operands(node, Binary::Add) else { return Ok(None) };
        if let Some(value) = self.layer_norm(scaled, Some(bias))? {
            return Ok(Some(value));
        }
        let rank = node.shape.rank();
        let Some([core, weight]) = operands(scaled, Binary::Mul) else { return Ok(None) };
        let Some([centered, scale]) = operands(core, Binary::Mul) else { return Ok(None) };
        let Some([x, mean]) = operands(centered, Binary::Sub) else { return Ok(None) };
        if rank < 2 {
            return Ok(None);
        }
        let channel = |node| vector(node, rank - 2, x.shape[1]);
        let (Some(scale), Some(mean), Some(weight), Some(bias)) =
            (channel(scale), channel(mean), channel(weight), channel(bias))
        else {
            return Ok(None);
        };
        let Some((variance, epsilon)) = inverse_root(scale) else { return Ok(None) };
        let mut names = Vec::new();
        for value in [x, weight, bias, mean, variance] {
            names.push(self.whole(value)?.name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sizes = self.traced.sizes(node);
        Ok(Some(self.to.value("BatchNormalization", &names, vec![float("epsilon", epsilon)], sizes)))
    }

    /// `standardized · weight (+ bias)` over the last axes.
    fn layer_norm(&mut self, scaled: &NodeRef, bias: Option<&NodeRef>) -> Result<Option<Value>> {
        let Some([core, weight]) = operands(scaled, Binary::Mul) else { return Ok(None) };
        let Some(Standardized { x, axes, epsilon }) = standardized(self.traced, core) else { return Ok(None) };
        let rank = x.shape.rank();
        let first = rank - axes.len();
        let is_of_axes = |node: &NodeRef| node.shape.dims() == &x.shape[first..];
        let (weight, bias) = (unexpanded(weight), bias.map(unexpanded));
        let fits = axes.iter().copied().eq(first..rank) && is_of_axes(weight) && bias.is_none_or(is_of_axes);
        if !fits {
            return Ok(None);
        }
        let mut names = Vec::new();
        for value in [x, weight].into_iter().chain(bias) {
            names.push(self.whole(value)?.name);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let attributes = vec![int("axis", first as i64 - rank as i64), float("epsilon", epsilon)];
        Ok(Some(self.to.value("LayerNormalization", &names, attributes, self.traced.sizes(scaled))))
    }

    fn mean_or_norm(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        if let Some(value) = self.layer_norm(node, None)? {
            return Ok(Some(value));
        }
        let Some((x, axes)) = mean(self.traced, node) else { return Ok(None) };
        let value = self.whole(x)?;
        let sizes = self.traced.sizes(node);
        let rank = value.dims.len();
        if rank >= 3 && axes.iter().copied().eq(2..rank) {
            let ones = vec![Size::ONE; rank - 2];
            let dims = [&value.dims[..2], &ones].concat();
            let value = self.to.value("GlobalAveragePool", &[&value.name], Vec::new(), dims);
            return self.to.reshape(&value, &sizes).map(Some);
        }
        let value = self.reduced("ReduceMean", &value, axes);
        self.to.reshape(&value, &sizes).map(Some)
    }

    fn softmax_or_pool(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let Some([above, below]) = operands(node, Binary::Div) else { return Ok(None) };
        if let Some(divisor) = number(below) {
            let sums = unshaped(above);
            let Some(value) = self.mean_pool(sums, divisor)? else { return Ok(None) };
            return self.to.reshape(&value, &self.traced.sizes(node)).map(Some);
        }
        let Some((powers, &[axis])) = reduction(unexpanded(below), ReduceOp::Sum) else { return Ok(None) };
        let Some(shifted) = operand(above, Unary::Exp) else { return Ok(None) };
        match less_its_largest(shifted, axis) {
            Some(x) if powers.id == above.id => self.along_axis("Softmax", x, axis).map(Some),
            _ => Ok(None),
        }
    }

    fn log_softmax(&mut self, node: &NodeRef) -> Result<Option<Value>> {
        let found = || {
            let [shifted, logarithm] = operands(node, Binary::Sub)?;
            let (powers, axes) = reduction(operand(unexpanded(logarithm), Unary::Log)?, ReduceOp::Sum)?;
            let &[axis] = axes else { return None };
            let x = less_its_largest(shifted, axis)?;
            (operand(powers, Unary::Exp)?.id == shifted.id).then_some((x, axis))
        };
        let Some((x, axis)) = found() else { return Ok(None) };
        self.along_axis("LogSoftmax", x, axis).map(Some)
    }

    fn along_axis(&mut self, name: &str, x: &NodeRef, axis: usize) -> Result<Value> {
        let value = self.whole(x)?;
        let axis = vec![int("axis", axis as i64)];
        Ok(self.to.value(name, &[&value.name], axis, value.dims.clone()))
    }
}

/// `x` of `x - max x` along an axis.
fn less_its_largest(node: &NodeRef, axis: usize) -> Option<&NodeRef> {
    let [x, largest] = operands(node, Binary::Sub)?;
    let (of, axes) = reduction(unexpanded(largest), ReduceOp::Max)?;
    (of.id == x.id && axes == [axis]).then_some(x)
}
