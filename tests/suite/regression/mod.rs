//! What was broken once, named after what broke.

mod memory;
mod values;
