//! The native executor: runs plans on the CPU's SIMD units and cores.
