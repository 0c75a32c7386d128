//! Evaluation, variables and captured steps.

use crate::graph::Memory;

/// State that lives on a device.
pub struct VarCell(Memory);

impl VarCell {
    /// Where its current value lies.
    pub fn memory(&self) -> Memory {
        self.0.clone()
    }
}
