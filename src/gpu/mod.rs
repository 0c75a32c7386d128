//! The GPU executor: the only place that knows wgpu.
//!
//! [`adapters`] lists what is there and [`Gpu`] is one of them, opened. All work on it is recorded in one order
//! ([`recorder`]): uploads through a ring of mapped buffers ([`staging`], [`transfer`]), replays of programs, and reads
//! ([`readback`]). A [`Program`] is a plan whose kernels are rendered to WGSL ([`render`]) and compiled ([`pipeline`],
//! [`pipeline_cache`], [`ahead`]); a [`Bound`] is a program with memory ([`dispatch`]), and is replayed in passes and
//! submissions ([`passes`]) that the device's own clock ([`timestamps`]) or else the host's ([`fences`]) times. What
//! other variants of its contractions would take is measured on request ([`mod@tune`]) and remembered for the next device
//! ([`tuned`]).
//!
//! Invariant: nothing here knows what a gradient is, and a replay makes no buffers, pipelines or bind groups.

mod adapter;
mod ahead;
mod bound;
mod context;
mod counters;
mod dispatch;
mod features;
mod fences;
mod health;
mod pace;
mod passes;
mod pipeline;
mod pipeline_cache;
mod probe;
mod program;
mod readback;
mod recorder;
mod render;
mod staging;
mod stopwatch;
mod tally;
mod timestamps;
mod transfer;
mod tune;
mod tuned;
mod waiter;

#[cfg(test)]
mod tests;

/// For those who share a device with it.
pub use ::wgpu;
pub(crate) use adapter::{Adapter, Adapters, Identity, adapters, identity, look_again, wanted};
pub(crate) use bound::Bound;
pub(crate) use context::{AllocError, Gpu, full_name};
pub(crate) use program::Program;
pub(crate) use readback::Read;
#[cfg(test)]
pub(crate) use render::{Binding, Launch, Uniforms};
pub(crate) use render::{Capabilities, Units, text};
pub(crate) use transfer::Span;
#[cfg(test)]
pub(crate) use tune::remember_last_variants;
pub(crate) use tune::tune;
pub(crate) use tuned::circumstances;
/// Memory on a GPU.
pub(crate) use wgpu::Buffer;
