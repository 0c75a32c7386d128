//! One vector of memory for many variables, so that one launch updates them all.

use std::sync::Arc;

use crate::custom::ALIGNMENT;
use crate::error::Result;
use crate::graph::{Memory, Node, Op};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::var::{Var, VarKind};

/// Variables that share one storage, each where a binding may start; the gaps stay zero. So a kernel that works on one
/// of them is the same kernel as that of another layer.
#[derive(Clone, Debug)]
pub struct Arena {
    whole: Var,
    offsets: Vec<usize>,
}

impl Arena {
    /// Moves `vars`, all of one element type and on one device, into one storage.
    ///
    /// # Errors
    /// If there is no memory for it.
    ///
    /// # Panics
    /// If there are no variables, they differ in type or device, or one belongs to a living arena already.
    #[track_caller]
    pub fn new(name: &str, vars: &[Var]) -> Result<Self> {
        let (dtype, device) = (vars[0].dtype(), vars[0].device().clone());
        // nobody writes them, or has them join another arena, meanwhile
        let _exclusive = device.exclusive();
        let mut offsets = Vec::with_capacity(vars.len());
        let mut len = 0usize;
        let unit = ALIGNMENT / dtype.size_bytes();
        for var in vars {
            assert!(
                var.dtype() == dtype && *var.device() == device,
                "arena `{name}`: `{}` has another type or device",
                var.name()
            );
            let first = vars.iter().position(|other| other.id() == var.id());
            assert!(first == Some(offsets.len()), "arena `{name}`: `{}` is given twice", var.name());
            assert!(
                !var.0.is_in_arena(),
                "arena `{name}`: `{}` belongs to an arena already (drop the optimizer that holds it first)",
                var.name()
            );
            assert!(
                var.0.codes().is_none(),
                "arena `{name}`: `{}` is kept in 8 bits, and cannot be trained",
                var.name()
            );
            offsets.push(len);
            len += var.shape().numel().next_multiple_of(unit);
        }
        let shape = Shape::from(len).in_memory(name);
        let storage = device.alloc((len * dtype.size_bytes()) as u64, name.to_owned())?;
        let memory = Memory::new(storage, 0);
        let whole = Var(VarCell::new(name, VarKind::State, shape, dtype, &device, memory));
        let parts: Vec<_> = vars.iter().zip(&offsets).map(|(var, &offset)| (Arc::clone(&var.0), offset)).collect();
        whole.0.adopt(&parts)?;
        Ok(Self { whole, offsets })
    }

    /// What a variable takes of one, the gap behind it included.
    pub(crate) fn bytes_of(var: &Var) -> u64 {
        (var.shape().bytes(var.dtype())).next_multiple_of(ALIGNMENT as u64)
    }

    /// All values as one vector.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        self.whole.tensor()
    }

    /// Replaces all values.
    #[track_caller]
    pub fn assign(&self, flat: &Tensor) {
        self.whole.assign(flat);
    }

    /// `tensors`, one for each variable and of its number of elements, as one vector laid out like the arena.
    #[track_caller]
    pub fn pack(&self, tensors: &[Tensor]) -> Tensor {
        assert_eq!(tensors.len(), self.offsets.len(), "pack: one tensor for each variable of the arena");
        let inputs = tensors.iter().map(|tensor| tensor.node().clone()).collect();
        let shape = self.whole.shape().clone();
        let op = Op::Pack { offsets: self.offsets.clone(), len: shape.numel() };
        Tensor::from_node(Node::new(op, inputs, shape, self.whole.dtype(), self.whole.device()))
    }

    /// Elements in all, gaps included.
    pub fn numel(&self) -> usize {
        self.whole.shape().numel()
    }

    /// The variable that spans the whole arena.
    pub fn whole(&self) -> &Var {
        &self.whole
    }

    /// First element of each variable.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }
}
