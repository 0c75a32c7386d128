//! Working memory of a thread: it grows to what the largest kernel needs and is then only reused.

use std::cell::RefCell;

use rayon::prelude::*;

use super::fold::Tree;
use super::registers::Registers;
use super::team::Lead;

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

/// Who works on the pieces of a kernel.
#[derive(Clone, Copy)]
pub(super) enum Threads<'a> {
    /// The calling thread.
    One,
    /// The current pool, some of whose threads may sleep.
    Pool,
    /// Threads that are awake.
    Team(&'a Lead),
}

/// Nanoseconds of work that are worth waking another thread for.
pub(super) const WORTH_WAKING: f64 = 20_000.0;
/// Nanoseconds of work that are worth telling a thread that is awake.
const WORTH_TELLING: f64 = 6_000.0;

impl Threads<'_> {
    /// Those of them that work of so many nanoseconds is worth.
    pub(super) fn worth(self, nanoseconds: f64) -> Self {
        let least = match self {
            Self::One => return self,
            Self::Pool => WORTH_WAKING,
            Self::Team(_) => WORTH_TELLING,
        };
        if nanoseconds > least { self } else { Self::One }
    }

    /// Calls `f(kernel, threads)` for each of so many kernels of a wave, which may have those threads.
    pub(super) fn for_each_kernel(self, kernels: usize, f: impl Fn(usize, Threads<'_>) + Sync) {
        match self {
            Self::One => (0..kernels).for_each(|kernel| f(kernel, self)),
            Self::Pool => (0..kernels).into_par_iter().with_max_len(1).for_each(|kernel| f(kernel, Threads::Pool)),
            // they take differently long
            Self::Team(lead) => lead.for_each_in_order(kernels, &|kernel| f(kernel, Threads::One)),
        }
    }

    /// Calls `f(piece, scratch)` for each piece.
    ///
    /// Rule: `f` starts no parallel work itself, or a thread that waits in it could take a second piece while it holds
    /// its scratch.
    pub(super) fn for_each_piece(self, pieces: usize, f: impl Fn(usize, &mut Scratch) + Sync) {
        let with_scratch = |piece| SCRATCH.with_borrow_mut(|scratch| f(piece, scratch));
        match self {
            Self::Pool if pieces > 1 => (0..pieces).into_par_iter().with_max_len(1).for_each(with_scratch),
            Self::Team(lead) if pieces > 1 => lead.for_each(pieces, &with_scratch),
            _ => SCRATCH.with_borrow_mut(|scratch| (0..pieces).for_each(|piece| f(piece, scratch))),
        }
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
