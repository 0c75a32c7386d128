//! Variables that are kept in 8 bits.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, no_grad};

use super::var::{Var, VarKind};
use super::{substitute, trace};

/// The code of 0; those of the largest values are 127 away.
const ZERO: f64 = 128.0;
const LARGEST: f64 = 127.0;

/// What a value is computed from.
#[derive(Clone)]
pub(super) struct Codes {
    /// Of each element, u8.
    codes: Var,
    /// Of each row (element of the first axis): what a code more stands for, f32 `[rows, 1, ..]`.
    scale: Var,
}

impl Codes {
    /// The codes nearest to `value`: of each row, a scale by which its largest magnitude has the largest code.
    #[track_caller]
    fn of(value: &Tensor, name: &str, kind: VarKind) -> Result<Self> {
        no_grad(|| {
            let within: Vec<isize> = (1..value.rank() as isize).collect();
            let largest = value.abs().max_keepdim(within);
            let scale = largest.eq(0.0).where_(1.0, &largest / LARGEST);
            let codes = ((value / &scale).round().clamp(-LARGEST, LARGEST) + ZERO).to_dtype(DType::U8);
            Ok(Self {
                codes: Var::new(&format!("{name} (codes)"), kind, &codes)?,
                scale: Var::new(&format!("{name} (scales)"), kind, &scale)?,
            })
        })
    }

    /// The value that they stand for.
    #[track_caller]
    pub(super) fn value(&self) -> Tensor {
        Self::number(self.codes.tensor()) * self.scale.tensor()
    }

    /// From -127 to 127.
    #[track_caller]
    fn number(codes: Tensor) -> Tensor {
        codes.to_dtype(DType::F32) - ZERO
    }
}

impl Var {
    /// Keeps the value in 8 bits from now on: for each row (element of the first axis), whole numbers from -127 to 127
    /// times a scale of its own, by which the largest magnitude is kept as it is. Each element is off by at most half a
    /// scale, 1/254 of that magnitude. It takes a quarter of the memory, and a number for each row.
    ///
    /// Reading it gives the value that it stands for, f32 as before, which products compute where they need it. It
    /// cannot be trained, assigned or set any more; gradients pass by it to what else a product is of. An element that
    /// is NaN or infinite has no scale: its whole row becomes NaN or infinite.
    ///
    /// # Errors
    /// If it is not f32, has fewer than two axes or no elements, or belongs to an optimizer; if a step is being traced;
    /// or if the device fails.
    #[track_caller]
    pub fn quantize(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::Config(format!("`{}` cannot be kept in 8 bits: {why}", self.name())));
        if trace::is_tracing() {
            return Err(Error::Traced { what: format!("keeping `{}` in 8 bits", self.name()) });
        }
        if self.0.codes().is_some() {
            return Ok(());
        }
        if self.dtype() != DType::F32 || self.shape().rank() < 2 || self.shape().numel() == 0 {
            return refuse(&format!("it is {}{}, not f32 of two axes or more", self.dtype(), self.shape()));
        }
        if self.0.is_in_arena() {
            return refuse("an optimizer trains it");
        }
        let codes = Codes::of(&self.tensor(), self.name(), self.kind())?;
        self.0.keep(codes)
    }

    /// Rows of a table, as [`Tensor::embedding`]; of codes only those are made numbers.
    #[track_caller]
    pub(crate) fn embedding(&self, index: &Tensor) -> Tensor {
        match (substitute::value(self.id()), self.0.codes()) {
            (None, Some(Codes { codes, scale })) => {
                Codes::number(codes.tensor().embedding(index)) * scale.tensor().embedding(index)
            }
            _ => self.tensor().embedding(index),
        }
    }

    /// True if it is kept in 8 bits.
    pub fn is_quantized(&self) -> bool {
        self.0.codes().is_some()
    }

    /// Memory that the value takes.
    pub fn bytes(&self) -> u64 {
        let of = |var: &Var| var.shape().bytes(var.dtype());
        self.0.codes().map_or_else(|| of(self), |Codes { codes, scale }| of(&codes) + of(&scale))
    }
}

/// What `value` becomes by [`Var::quantize`].
#[track_caller]
pub(crate) fn rounded_to_codes(value: &Tensor) -> Result<Tensor> {
    Ok(Codes::of(value, "value", VarKind::State)?.value())
}
