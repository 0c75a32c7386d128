//! Systems A X = B of batches that broadcast.

use crate::dtype::DType;
use crate::graph::refuse;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::matrices::Matrices;

/// A and B in f32, and what X is made of.
pub(super) struct System {
    /// `[matrices, m, n]`
    pub(super) a: Tensor,
    /// `[count, m, k]`, or side by side for a single A.
    pub(super) b: Tensor,
    /// The axes before the last two of A, and of both.
    leads: [Shape; 2],
    /// How many right sides lie side by side.
    abreast: usize,
    is_vector: bool,
    dtype: DType,
}

impl System {
    #[track_caller]
    pub(super) fn of(name: &str, a: &Tensor, b: &Tensor) -> Self {
        let is_vector = b.rank() == 1;
        let columns = if is_vector { b.unsqueeze(-1) } else { b.clone() };
        let left = Matrices::of(name, a);
        if columns.rank() < 2 || a.size(-2) != columns.size(-2) {
            refuse(format_args!("{name}: {} x {}, B does not have as many rows as A", a.shape(), b.shape()));
        }
        let right = Matrices::of(name, &columns);
        if left.dtype != right.dtype {
            let [a, b] = [left.dtype, right.dtype];
            refuse(format_args!("{name}: {a} and {b} do not mix; cast one with to_dtype"));
        }
        let Some(lead) = left.lead.broadcast(&right.lead) else {
            refuse(format_args!("{name}: {} x {}, leading axes do not broadcast", a.shape(), b.shape()));
        };
        let single = left.all.size(0) == 1;
        let abreast = if single { right.all.size(0) } else { 1 };
        let b = match single {
            true => side_by_side(&right.all),
            false => expanded(&right.all, [&right.lead, &lead]),
        };
        Self { a: left.all, b, leads: [left.lead, lead], abreast, is_vector, dtype: right.dtype }
    }

    /// What belongs to each A, as often as there are right sides.
    #[track_caller]
    pub(super) fn spread(&self, of_a: &Tensor) -> Tensor {
        if of_a.size(0) == 1 { of_a.clone() } else { expanded(of_a, [&self.leads[0], &self.leads[1]]) }
    }

    /// X as B was.
    #[track_caller]
    pub(super) fn result(&self, x: &Tensor) -> Tensor {
        let [_, height, width] = *x.shape().dims() else { unreachable!("there is a batch") };
        let x = if self.abreast == 1 {
            x.clone()
        } else {
            x.reshape([height, self.abreast, width / self.abreast.max(1)]).transpose(0, 1)
        };
        let x = x.reshape([self.leads[1].dims(), &x.shape()[1..]].concat()).to_dtype(self.dtype);
        if self.is_vector { x.squeeze(-1) } else { x }
    }
}

/// `[count, m, k]` as `[1, m, count · k]`.
#[track_caller]
fn side_by_side(b: &Tensor) -> Tensor {
    let [count, height, width] = *b.shape().dims() else { unreachable!("there is a batch") };
    if count == 1 { b.clone() } else { b.transpose(0, 1).reshape([1, height, count * width]) }
}

/// Each of a batch as often as wider leading axes have it.
#[track_caller]
fn expanded(all: &Tensor, [own, lead]: [&Shape; 2]) -> Tensor {
    if own == lead {
        return all.clone();
    }
    let each = &all.shape()[1..];
    let wide = all.reshape([own.dims(), each].concat()).expand([lead.dims(), each].concat());
    wide.reshape([&[lead.iter().product()], each].concat())
}
