//! The native executor: runs plans on the CPU's SIMD units and cores.

mod math;
mod memory;
mod space;
