//! Vectors of words that begin on a cache line, so that no vector load crosses two.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

const LINE: usize = 16;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; LINE]);

/// Words that only ever grow in number.
#[derive(Default)]
pub(super) struct Words(Vec<Line>);

impl Words {
    /// At least `len` words; new ones are 0.
    pub(super) fn reserve(&mut self, len: usize) {
        if self.0.len() * LINE < len {
            self.0.resize(len.div_ceil(LINE), Line([0; LINE]));
        }
    }
}

impl Deref for Words {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
