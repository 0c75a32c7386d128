//! Blocks of memory and their reuse.
#![expect(unsafe_code, reason = "memory is allocated by hand, so that its zeros cost nothing")]

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::dtype::Element;
use crate::free_list::FreeList;

use super::prepack::{Kept, Packing};
use super::view::View;

/// Alignment and granularity of the usable part of a block.
const ALIGNMENT: usize = 64;
/// Smaller blocks are left to the system's allocator, which is good at them.
const KEPT_BLOCK: usize = 4 << 10;
/// Most bytes that wait for reuse.
const KEPT_BYTES: u64 = 1 << 30;

/// Where a device's memory comes from and returns to: touching fresh memory costs ten times what writing to it again
/// does.
#[derive(Clone, Debug)]
pub(crate) struct Blocks(Arc<Mutex<FreeList<Raw>>>);

/// Bytes on the host, shared by all clones, that kernels of any thread read and write.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Block>);

/// One allocation; returns to where it came from when dropped.
#[derive(Debug)]
struct Block {
    raw: Raw,
    bytes: u64,
    home: Blocks,
    kept: Mutex<Kept>,
}

/// An allocation of `capacity + ALIGNMENT` bytes, all of them initialised.
#[derive(Debug)]
struct Raw {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a `Raw` is plain bytes without thread affinity; accesses through it are governed by the promise of `view`.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Raw {
    /// The layout's alignment is that of `calloc`, whose zeros cost nothing until they are touched; a stricter one
    /// would make the standard library clear the memory by hand.
    fn layout(capacity: usize) -> Option<Layout> {
        Layout::from_size_align(capacity.checked_add(ALIGNMENT)?, 16).ok()
    }

    fn allocate(capacity: usize) -> Option<Self> {
        let layout = Self::layout(capacity)?;
        // SAFETY: the layout's size is not 0.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        Some(Self { start, capacity })
    }

    /// No allocation.
    const NONE: Self = Self { start: NonNull::dangling(), capacity: 0 };

    /// The first aligned byte; `capacity` bytes follow.
    fn aligned(&self) -> *mut u8 {
        let start = self.start.as_ptr();
        // SAFETY: `align_offset` is below ALIGNMENT, and ALIGNMENT bytes more than the capacity were allocated.
        unsafe { start.add(start.align_offset(ALIGNMENT)) }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if self.capacity > 0 {
            let layout = Self::layout(self.capacity).expect("the layout was valid when this was allocated");
            // SAFETY: allocated with this layout, as only `NONE` has no capacity.
            unsafe { std::alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(FreeList::new(KEPT_BYTES))))
    }
}

impl Blocks {
    fn list(&self) -> MutexGuard<'_, FreeList<Raw>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that wait for reuse.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.list().bytes()
    }

    /// Gives what waits for reuse back to the system.
    pub(crate) fn release(&self) {
        let gone = self.list().drain();
        drop(gone);
    }

    /// Memory that reads as zero; `None` if there is none left.
    pub(crate) fn zeroed(&self, bytes: u64) -> Option<Memory> {
        let (memory, fresh) = self.allocate(bytes)?;
        if !fresh {
            memory.clear(0, bytes);
        }
        Some(memory)
    }

    /// Memory with arbitrary contents; `None` if there is none left.
    pub(crate) fn scratch(&self, bytes: u64) -> Option<Memory> {
        self.allocate(bytes).map(|(memory, _)| memory)
    }

    /// The memory, and whether it is known to be zero.
    fn allocate(&self, bytes: u64) -> Option<(Memory, bool)> {
        let capacity = usize::try_from(bytes).ok()?.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let reused = if capacity >= KEPT_BLOCK { self.list().take(capacity as u64) } else { None };
        let fresh = reused.is_none();
        let raw = match reused {
            Some((_, raw)) => raw,
            None => Raw::allocate(capacity).or_else(|| {
                self.release();
                Raw::allocate(capacity)
            })?,
        };
        Some((Memory(Arc::new(Block { raw, bytes, home: self.clone(), kept: Mutex::default() })), fresh))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let raw = std::mem::replace(&mut self.raw, Raw::NONE);
        if raw.capacity >= KEPT_BLOCK {
            let gone = self.home.list().keep(raw.capacity as u64, raw);
            drop(gone);
        }
    }
}

impl Memory {
    /// Usable bytes, as asked for.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Sets the `len` bytes from `offset` on to zero.
    pub(super) fn clear(&self, offset: u64, len: u64) {
        let (start, len) = self.range(offset, len);
        // SAFETY: the range was checked.
        unsafe { start.write_bytes(0, len) };
        self.changed();
    }

    fn range(&self, offset: u64, len: u64) -> (*mut u8, usize) {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.0.bytes);
        assert!(inside, "bytes {offset}+{len} lie outside a memory of {}", self.0.bytes);
        // SAFETY: `offset <= bytes <= capacity`.
        (unsafe { self.0.raw.aligned().add(offset as usize) }, len as usize)
    }

    /// A copy of the elements in `len` bytes from `offset` on.
    pub(crate) fn read<T: Element>(&self, offset: u64, len: u64) -> Vec<T> {
        let (start, len) = self.range(offset, len);
        // SAFETY: the range was checked, and all bytes are initialised.
        T::from_bytes(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// Overwrites the bytes from `offset` on.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        let (start, len) = self.range(offset, bytes.len() as u64);
        // SAFETY: the range was checked; `bytes` may in theory overlap it, which `copy` allows.
        unsafe { std::ptr::copy(bytes.as_ptr(), start, len) };
        self.changed();
    }

    /// Copies `len` bytes of `from`, which may be this memory.
    pub(crate) fn copy_from(&self, from: &Self, from_offset: u64, to_offset: u64, len: u64) {
        let (source, len_bytes) = from.range(from_offset, len);
        let (target, _) = self.range(to_offset, len);
        // SAFETY: both ranges were checked; `copy` allows overlap.
        unsafe { std::ptr::copy(source, target, len_bytes) };
        self.changed();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called after its contents were written through a [`view`](Self::view).
    pub(super) fn changed(&self) {
        let gone = self.kept().changed();
        drop(gone);
    }

    /// Another number whenever its contents have changed.
    pub(super) fn version(&self) -> u64 {
        self.kept().version()
    }

    /// What its contents are in another packing, if that is kept, and their version.
    pub(super) fn packed(&self, packing: &Arc<Packing>) -> Option<(u64, Self)> {
        let kept = self.kept();
        Some((kept.version(), kept.words(packing)?))
    }

    /// Offers `words`, which its contents of `version` are in another packing, to be kept.
    pub(super) fn keep_packed(&self, packing: &Arc<Packing>, version: u64, words: &Self) {
        self.kept().keep(packing, version, words);
    }

    /// True if somebody else holds it, too.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The `len` bytes from `offset` on.
    pub(super) fn view(&self, offset: u64, len: u64) -> View {
        let (start, len) = self.range(offset, len);
        // SAFETY: the range was checked, and all bytes are initialised; whoever runs kernels keeps the memory.
        unsafe { View::new(start, len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_memory_is_zero_even_when_it_is_reused() {
        let blocks = Blocks::default();
        for _ in 0..3 {
            let memory = blocks.zeroed(1 << 20).expect("a megabyte");
            assert_eq!(blocks.kept_bytes(), 0, "the one that waited is in use");
            assert!(memory.read::<u8>(0, 1 << 20).iter().all(|&byte| byte == 0));
            memory.write(17, &[1, 2, 3]);
            assert_eq!(memory.read::<u8>(16, 5), [0, 1, 2, 3, 0]);
            let clone = memory.clone();
            clone.copy_from(&memory, 17, 18, 3);
            assert_eq!(memory.read::<u8>(16, 6), [0, 1, 1, 2, 3, 0]);
            assert_eq!(memory.0.raw.aligned().align_offset(ALIGNMENT), 0);
            drop((memory, clone));
            assert_eq!(blocks.kept_bytes(), 1 << 20);
        }
        blocks.release();
        assert_eq!(blocks.kept_bytes(), 0);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let blocks = Blocks::default();
        assert!(blocks.zeroed(u64::MAX).is_none());
        assert!(blocks.zeroed(1 << 60).is_none());
    }

    #[test]
    #[should_panic(expected = "outside a memory")]
    fn reading_beyond_the_end_panics() {
        Blocks::default().zeroed(8).expect("8 bytes").read::<u8>(4, 5);
    }
}
