//! The GPU executor: the only place that knows wgpu.

pub(crate) mod render;
