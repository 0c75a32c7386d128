//! Layers that other programs know by name, found again in the ops that they are made of.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Binary, NodeRef, Op, ReduceOp, Unary};

use super::Writer;
use super::builder::{Value, float, int, word};
use super::matching::{
    Standardized, inverse_root, joined, less_its_largest, mean, number, operand, operands, reduction, repeated,
    standardized, unexpanded, unshaped, vector,
};
use super::size::Size;

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
            Op::Binary(Binary::Mul) => self.layer_norm(node, None),
            // a pool's windows are a reduction's rows, too
            Op::Binary(Binary::Div) => match self.softmax_or_pool(node)? {
                None => self.mean(node),
                value => Ok(value),
            },
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

    fn mean(&mut self, node: &NodeRef) -> Result<Option<Value>> {
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
