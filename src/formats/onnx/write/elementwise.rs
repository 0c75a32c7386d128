//! Ops of single elements, reductions and scans.

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::graph::{Binary, NodeRef, Op, ReduceOp, Unary};

use super::super::proto::ElementType;
use super::Writer;
use super::builder::{Value, element_type, int};
use super::size::Size;
use super::trace::{depends, resolved, what};

/// The axes of values that are broadcast to each other.
fn broadcast(values: &[&Value]) -> Vec<Size> {
    let rank = values.iter().map(|value| value.dims.len()).max().unwrap_or(0);
    let size = |axis: usize| {
        let sizes = values.iter().filter_map(|value| Some(value.dims[axis.checked_sub(rank - value.dims.len())?]));
        sizes.fold(Size::ONE, |known, size| if known == Size::ONE { size } else { known })
    };
    (0..rank).map(size).collect()
}

impl Writer<'_> {
    /// A node of values that are broadcast to each other.
    fn broadcast_node(&mut self, op: &str, values: &[&Value]) -> Value {
        let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
        self.to.value(op, &names, Vec::new(), broadcast(values))
    }

    /// The low 32 bits of what is stored in 64.
    fn low_word(&mut self, x: &Value) -> Value {
        let mask = self.number(DType::U32, u32::MAX.into());
        self.broadcast_node("BitwiseAnd", &[x, &mask])
    }

    pub(super) fn unary(&mut self, op: Unary, node: &NodeRef) -> Result<Value> {
        let x = self.value(&node.inputs[0])?;
        let dtype = node.inputs[0].dtype;
        let mut one = |name: &str, x: &Value| self.broadcast_node(name, &[x]);
        let name = match op {
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Sign => "Sign",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Recip => "Reciprocal",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Tanh => "Tanh",
            Unary::Erf => "Erf",
            Unary::Sigmoid => "Sigmoid",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Not => "Not",
            Unary::IsNan => "IsNaN",
            Unary::Rsqrt => {
                let root = one("Sqrt", &x);
                return Ok(one("Reciprocal", &root));
            }
            Unary::Expm1 => {
                let power = one("Exp", &x);
                let number = self.number(dtype, 1.0);
                return Ok(self.broadcast_node("Sub", &[&power, &number]));
            }
            Unary::Log1p => {
                let number = self.number(dtype, 1.0);
                let sum = self.broadcast_node("Add", &[&x, &number]);
                return Ok(self.broadcast_node("Log", &[&sum]));
            }
            Unary::IsFinite => {
                let x = self.full(&x, dtype);
                let mut one = |name: &str, x: &Value| self.broadcast_node(name, &[x]);
                let (infinite, nan) = (one("IsInf", &x), one("IsNaN", &x));
                let neither = self.broadcast_node("Or", &[&infinite, &nan]);
                return Ok(self.broadcast_node("Not", &[&neither]));
            }
        };
        let value = one(name, &x);
        Ok(if op == Unary::Neg && dtype == DType::U32 { self.low_word(&value) } else { value })
    }

    fn number(&mut self, dtype: DType, number: f64) -> Value {
        Value { name: self.to.scalar(Scalar::new(dtype, number)), dims: Vec::new() }
    }

    pub(super) fn binary(&mut self, op: Binary, node: &NodeRef) -> Result<Value> {
        let (a, b) = (self.value(&node.inputs[0])?, self.value(&node.inputs[1])?);
        let is_bool = node.inputs[0].dtype == DType::Bool;
        let name = match op {
            Binary::Add if is_bool => "Or",
            Binary::Mul if is_bool => "And",
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => "Pow",
            Binary::Max if is_bool => "Or",
            Binary::Min if is_bool => "And",
            Binary::Lt | Binary::Le if is_bool => {
                let not_a = self.broadcast_node("Not", &[&a]);
                let name = if op == Binary::Lt { "And" } else { "Or" };
                return Ok(self.broadcast_node(name, &[&not_a, &b]));
            }
            Binary::Max => "Max",
            Binary::Min => "Min",
            Binary::And if is_bool => "And",
            Binary::Or if is_bool => "Or",
            Binary::Xor if is_bool => "Xor",
            Binary::And => "BitwiseAnd",
            Binary::Or => "BitwiseOr",
            Binary::Xor => "BitwiseXor",
            Binary::Eq => "Equal",
            Binary::Lt => "Less",
            Binary::Le => "LessOrEqual",
            Binary::Ne => {
                let equal = self.broadcast_node("Equal", &[&a, &b]);
                return Ok(self.broadcast_node("Not", &[&equal]));
            }
            Binary::Rem => {
                let dims = broadcast(&[&a, &b]);
                return Ok(self.to.value("Mod", &[&a.name, &b.name], vec![int("fmod", 1)], dims));
            }
            Binary::Atan2 if matches!(resolved(&node.inputs[1]).op, Op::Const(one) if one.to_f64() == 1.0) => {
                return Ok(self.broadcast_node("Atan", &[&a]));
            }
            Binary::Atan2 => return Ok(self.angle(&a, &b, node.dtype)),
            Binary::Shl | Binary::Shr => {
                return Err(Error::Export(format!("there is no operator of ONNX for {}", what(node))));
            }
        };
        let value = self.broadcast_node(name, &[&a, &b]);
        let may_overflow = matches!(op, Binary::Add | Binary::Sub | Binary::Mul) && node.dtype == DType::U32;
        Ok(if may_overflow { self.low_word(&value) } else { value })
    }

    /// The angle of the points (x, y): that of their slope, half a turn further on the left; 0 of the origin.
    fn angle(&mut self, y: &Value, x: &Value, dtype: DType) -> Value {
        use std::f64::consts::PI;
        let [zero, up, down] = [0.0, PI, -PI].map(|number| self.number(dtype, number));
        let [x_is_zero, y_is_zero] = [x, y].map(|value| self.broadcast_node("Equal", &[value, &zero]));
        // by a negative zero, too, the sign of y decides
        let divisor = self.broadcast_node("Where", &[&x_is_zero, &zero, x]);
        let slope = self.broadcast_node("Div", &[y, &divisor]);
        let angle = self.broadcast_node("Atan", &[&slope]);
        let below = self.broadcast_node("Less", &[y, &zero]);
        let turn = self.broadcast_node("Where", &[&below, &down, &up]);
        let turned = self.broadcast_node("Add", &[&angle, &turn]);
        let left = self.broadcast_node("Less", &[x, &zero]);
        let angle = self.broadcast_node("Where", &[&left, &turned, &angle]);
        let origin = self.broadcast_node("And", &[&x_is_zero, &y_is_zero]);
        self.broadcast_node("Where", &[&origin, &zero, &angle])
    }

    pub(super) fn select(&mut self, node: &NodeRef) -> Result<Value> {
        let [condition, a, b] = [0, 1, 2].map(|number: usize| self.value(&node.inputs[number]));
        Ok(self.broadcast_node("Where", &[&condition?, &a?, &b?]))
    }

    pub(super) fn cast(&mut self, node: &NodeRef) -> Result<Value> {
        let (from, to) = (node.inputs[0].dtype, node.dtype);
        let x = self.value(&node.inputs[0])?;
        if from.is_float() && matches!(to, DType::I32 | DType::U32 | DType::U8) {
            let x = self.full(&x, from);
            return Ok(self.truncated(&x, to));
        }
        let value = self.cast_to(&x, to);
        Ok(if (from, to) == (DType::I32, DType::U32) { self.low_word(&value) } else { value })
    }

    /// f32 as integers within the limits of a type, and 0 for NaN: what a `Cast` makes of others is left open.
    fn truncated(&mut self, x: &Value, to: DType) -> Value {
        let (low, high) = match to {
            DType::U8 => (0.0, 255.0),
            // 64 bits hold it
            DType::U32 => (0.0, 4_294_967_296.0),
            // the largest of f32 that i32 holds
            _ => (-2_147_483_648.0, 2_147_483_520.0),
        };
        let [zero, low, high] = [0.0, low, high].map(|number| self.number(DType::F32, number));
        let is_nan = self.broadcast_node("IsNaN", &[x]);
        let known = self.broadcast_node("Where", &[&is_nan, &zero, x]);
        let inside = self.to.value("Clip", &[&known.name, &low.name, &high.name], Vec::new(), x.dims.clone());
        let value = self.cast_to(&inside, to);
        if to == DType::U8 {
            return value;
        }
        let beyond = self.number(DType::F32, if to == DType::U32 { 4_294_967_296.0 } else { 2_147_483_648.0 });
        let is_beyond = self.broadcast_node("GreaterOrEqual", &[x, &beyond]);
        if to == DType::U32 {
            // one less: the largest u32 would be a constant that brasa, of i32, refuses to read
            let one = self.cast_to(&is_beyond, to);
            return self.broadcast_node("Sub", &[&value, &one]);
        }
        let most = self.number(to, i32::MAX.into());
        self.broadcast_node("Where", &[&is_beyond, &most, &value])
    }

    /// f16 as f32, for what is not defined for it.
    fn full(&mut self, x: &Value, dtype: DType) -> Value {
        if dtype == DType::F16 { self.cast_to(x, DType::F32) } else { x.clone() }
    }

    pub(super) fn cast_to(&mut self, x: &Value, dtype: DType) -> Value {
        let to = int("to", i32::from(element_type(dtype)).into());
        self.to.value("Cast", &[&x.name], vec![to], x.dims.clone())
    }

    pub(super) fn reduce(&mut self, op: ReduceOp, axes: &[usize], node: &NodeRef) -> Result<Value> {
        let x = self.whole(&node.inputs[0])?;
        // any and all of truth values
        let (op, x) = match (op, node.dtype) {
            (ReduceOp::Sum | ReduceOp::Max, DType::Bool) => (ReduceOp::Max, self.cast_to(&x, DType::I32)),
            (ReduceOp::Prod | ReduceOp::Min, DType::Bool) => (ReduceOp::Min, self.cast_to(&x, DType::I32)),
            _ => (op, x),
        };
        let name = match op {
            ReduceOp::Sum => "ReduceSum",
            ReduceOp::Prod => "ReduceProd",
            ReduceOp::Max => "ReduceMax",
            ReduceOp::Min => "ReduceMin",
        };
        let reduced = self.reduced(name, &x, axes);
        Ok(match (op, node.dtype) {
            (_, DType::Bool) => self.cast_to(&reduced, DType::Bool),
            (ReduceOp::Sum | ReduceOp::Prod, DType::U32) => self.low_word(&reduced),
            _ => reduced,
        })
    }

    /// Sums have an operator; others so far are those of 2, then of 4 elements, and so on.
    pub(super) fn scan(&mut self, op: ReduceOp, axis: usize, reverse: bool, node: &NodeRef) -> Result<Value> {
        let mut value = self.whole(&node.inputs[0])?;
        let dims = value.dims.clone();
        if op == ReduceOp::Sum {
            let axis = self.to.constant(&[], ElementType::Int64, (axis as i64).to_le_bytes().to_vec());
            value = self.to.value("CumSum", &[&value.name, &axis], vec![int("reverse", reverse.into())], dims);
        } else {
            let Some(length) = dims[axis].known() else { return Err(depends(&what(node))) };
            let nothing = self.to.scalar(op.identity(node.dtype));
            let joined = match op {
                ReduceOp::Max => "Max",
                ReduceOp::Min => "Min",
                ReduceOp::Prod | ReduceOp::Sum => "Mul",
            };
            let steps = std::iter::successors(Some(1), |step| Some(2 * step));
            for step in steps.take_while(|&step| step < length as i64) {
                let mut widths = [vec![0; dims.len()], vec![0; dims.len()]];
                widths[usize::from(reverse)][axis] = step;
                widths[usize::from(!reverse)][axis] = -step;
                let widths = self.to.numbers(&widths.concat());
                let before = self.to.value("Pad", &[&value.name, &widths, &nothing], Vec::new(), dims.clone());
                value = self.broadcast_node(joined, &[&value, &before]);
            }
        }
        let wraps = matches!(op, ReduceOp::Sum | ReduceOp::Prod) && node.dtype == DType::U32;
        Ok(if wraps { self.low_word(&value) } else { value })
    }

    /// `x` reduced over `axes`, which stay as axes of size 1.
    pub(super) fn reduced(&mut self, name: &str, x: &Value, axes: &[usize]) -> Value {
        let size = |(axis, &size): (usize, &Size)| if axes.contains(&axis) { Size::ONE } else { size };
        let dims = x.dims.iter().enumerate().map(size).collect();
        let list: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        if axes.is_empty() {
            return x.clone();
        }
        let axes = self.to.numbers(&list);
        self.to.value(name, &[&x.name, &axes], vec![int("keepdims", 1)], dims)
    }
}
