//! The GPU executor: the only place that knows wgpu.
