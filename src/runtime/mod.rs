//! Evaluation, variables and captured steps.

/// State that lives on a device.
pub struct VarCell;
