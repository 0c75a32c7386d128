//! The part of Python's pickle format (protocols 2 to 5) that `torch.save` writes, read without running anything: a
//! call of a Python function is kept as what it is, and whoever reads decides which ones are known.

mod machine;
mod opcode;

use machine::Machine;

/// The longest pickle that is read: a state dict takes some 200 bytes for each tensor, and each byte may become a
/// value.
pub(super) const MAX_BYTES: u64 = 8 << 20;

/// Number of a value.
pub(super) type Id = usize;

/// A Python value; what it consists of goes by number.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    /// `None`, and what is of no interest.
    Other,
    Int(i64),
    Text(String),
    /// Tuples and lists.
    Sequence(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A class or function: `module.name`.
    Global(String),
    /// Something that lies outside of the pickle.
    Outside(Id),
    /// What the first one, called with the second one, would give.
    Call(Id, Id),
}

/// What a pickle contains.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    root: Id,
}

impl Pickle {
    /// Reads a pickle.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let (values, root) = Machine::new(bytes).run()?;
        Ok(Self { values, root })
    }

    /// What the whole pickle is.
    pub(super) fn root(&self) -> &Value {
        &self[self.root]
    }
}

impl std::ops::Index<Id> for Pickle {
    type Output = Value;

    fn index(&self, id: Id) -> &Value {
        &self.values[id]
    }
}
