//! Working memory of a thread: it grows to what the largest kernel needs and is then only reused.

use std::cell::RefCell;

use rayon::prelude::*;

use super::execute::Registers;
use super::fold::Tree;

/// Everything a piece of a kernel needs besides buffers.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) registers: Registers,
    /// Results of reductions, one vector for each.
    pub(super) reduced: Vec<Vec<u32>>,
    /// Partial results of reductions, one vector for each.
    pub(super) partial: Vec<Vec<u32>>,
    pub(super) trees: Vec<Tree>,
    pub(super) panels: super::pack::Panels,
    pub(super) sorter: super::routine::Sorter,
    pub(super) attention: super::attention::Work,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Calls `f(piece, scratch)` for each piece, on all threads of the current pool if `parallel`.
///
/// Rule: `f` starts no parallel work itself, or a thread that waits in it could take a second piece while it holds its
/// scratch.
pub(super) fn for_each_piece(pieces: usize, parallel: bool, f: impl Fn(usize, &mut Scratch) + Sync) {
    if parallel && pieces > 1 {
        (0..pieces).into_par_iter().with_max_len(1).for_each(|piece| {
            SCRATCH.with_borrow_mut(|scratch| f(piece, scratch));
        });
    } else {
        SCRATCH.with_borrow_mut(|scratch| (0..pieces).for_each(|piece| f(piece, scratch)));
    }
}

/// Makes `vectors` hold at least `count` vectors of at least `len` words.
pub(super) fn reserve(vectors: &mut Vec<Vec<u32>>, count: usize, len: usize) {
    if vectors.len() < count {
        vectors.resize_with(count, Vec::new);
    }
    for vector in &mut vectors[..count] {
        if vector.len() < len {
            vector.resize(len, 0);
        }
    }
}
