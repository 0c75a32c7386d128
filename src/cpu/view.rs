//! The bounds-checked raw views through which kernels touch memory from many threads.
//!
//! A [`View`] checks every range against its length, so a wrong plan panics instead of reading foreign memory. That no
//! two threads touch one element at a time is the plan's promise: points of a kernel write different elements, and read
//! none that another point writes.
#![expect(unsafe_code, reason = "kernels share buffers between threads, element by element")]

use bytemuck::Pod;
use half::f16;
use half::slice::HalfFloatSliceExt as _;

/// Halves that are converted at a time.
const AT_ONCE: usize = 64;

/// How an element type lies in memory and in a register of 32 bits.
pub(super) trait Stored: Pod {
    /// The register's bits.
    fn load(self) -> u32;
    /// The element.
    fn store(bits: u32) -> Self;
    /// Reads as many elements as `target` has words, wherever they lie.
    #[inline(always)]
    fn load_each(target: &mut [u32], element: impl Fn(usize) -> Self) {
        for (number, value) in target.iter_mut().enumerate() {
            *value = element(number).load();
        }
    }
    /// Writes elements, wherever they are to lie.
    #[inline(always)]
    fn store_each(source: &[u32], mut write: impl FnMut(usize, Self)) {
        for (number, &bits) in source.iter().enumerate() {
            write(number, Self::store(bits));
        }
    }
    /// Reads as many consecutive elements as `target` has words.
    ///
    /// # Safety
    /// They lie inside one allocation, are initialised, and nobody writes them.
    #[inline(always)]
    unsafe fn load_run(source: *const Self, target: &mut [u32]) {
        for (i, value) in target.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *value = unsafe { source.add(i).read() }.load();
        }
    }
    /// Writes consecutive elements.
    ///
    /// # Safety
    /// They lie inside one allocation, `source` is none of them, and nobody else reads or writes them.
    #[inline(always)]
    unsafe fn store_run(target: *mut Self, source: &[u32]) {
        for (i, &bits) in source.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { target.add(i).write(Self::store(bits)) };
        }
    }
}

impl Stored for u32 {
    #[inline(always)]
    fn load(self) -> u32 {
        self
    }
    #[inline(always)]
    fn store(bits: u32) -> Self {
        bits
    }
    #[inline(always)]
    unsafe fn load_run(source: *const Self, target: &mut [u32]) {
        // SAFETY: the caller's promise; registers are no part of a buffer.
        unsafe { target.as_mut_ptr().copy_from_nonoverlapping(source, target.len()) };
    }
    #[inline(always)]
    unsafe fn store_run(target: *mut Self, source: &[u32]) {
        // SAFETY: the caller's promise.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
    }
}

impl Stored for f16 {
    #[inline(always)]
    fn load(self) -> u32 {
        self.to_f32().to_bits()
    }
    #[inline(always)]
    fn store(bits: u32) -> Self {
        Self::from_f32(f32::from_bits(bits))
    }
    // many at once: one by one, whether the processor can convert is asked for each
    #[inline(always)]
    fn load_each(target: &mut [u32], element: impl Fn(usize) -> Self) {
        let mut halves = [Self::ZERO; AT_ONCE];
        for (part, target) in target.chunks_mut(AT_ONCE).enumerate() {
            let halves = &mut halves[..target.len()];
            halves.iter_mut().enumerate().for_each(|(number, half)| *half = element(part * AT_ONCE + number));
            halves.convert_to_f32_slice(bytemuck::cast_slice_mut(target));
        }
    }
    #[inline(always)]
    fn store_each(source: &[u32], mut write: impl FnMut(usize, Self)) {
        let mut halves = [Self::ZERO; AT_ONCE];
        for (part, source) in source.chunks(AT_ONCE).enumerate() {
            let halves = &mut halves[..source.len()];
            halves.convert_from_f32_slice(bytemuck::cast_slice(source));
            halves.iter().enumerate().for_each(|(number, &half)| write(part * AT_ONCE + number, half));
        }
    }
    #[inline(always)]
    unsafe fn load_run(source: *const Self, target: &mut [u32]) {
        // SAFETY: the caller's promise.
        let source = unsafe { std::slice::from_raw_parts(source, target.len()) };
        source.convert_to_f32_slice(bytemuck::cast_slice_mut(target));
    }
    #[inline(always)]
    unsafe fn store_run(target: *mut Self, source: &[u32]) {
        // SAFETY: the caller's promise.
        let target = unsafe { std::slice::from_raw_parts_mut(target, source.len()) };
        target.convert_from_f32_slice(bytemuck::cast_slice(source));
    }
}

impl Stored for u8 {
    #[inline(always)]
    fn load(self) -> u32 {
        u32::from(self)
    }
    #[inline(always)]
    fn store(bits: u32) -> Self {
        bits as Self
    }
}

/// The elements of a buffer, reachable from all threads. It does not keep the memory alive: whoever runs kernels does.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    start: *mut u8,
    bytes: usize,
}

/// Elements of 32 bits that are read where they lie, before anything else runs on the thread that asked for them: rows
/// of consecutive ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    start: *const u32,
    len: usize,
    rows: usize,
    /// Elements from a row to the next.
    pitch: isize,
}

impl Run {
    /// Words of the calling thread's own, which must outlive what reads them: so many rows of `len`, `pitch` apart.
    pub(super) fn of(words: &[u32], len: usize, (rows, pitch): (usize, usize)) -> Self {
        assert!((rows - 1) * pitch + len <= words.len(), "{rows} rows of {len} words in {}", words.len());
        Self { start: words.as_ptr(), len, rows, pitch: pitch as isize }
    }

    /// The first row.
    #[inline(always)]
    pub(super) fn words(&self) -> &[u32] {
        self.row(0)
    }

    #[inline(always)]
    pub(super) fn row(&self, number: usize) -> &[u32] {
        // SAFETY: the range was checked; by the module's promise nobody writes what this point reads.
        unsafe { std::slice::from_raw_parts(self.start_of(number), self.len) }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn start_of(&self, row: usize) -> *const u32 {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: all rows lie inside one allocation.
        unsafe { self.start.offset(row as isize * self.pitch) }
    }
}

/// Elements of 32 bits that are written where they lie, by the thread that asked for them.
pub(super) struct RunMut(Run);

impl RunMut {
    pub(super) fn rows(&self) -> usize {
        self.0.rows()
    }

    /// The first row.
    #[inline(always)]
    pub(super) fn words_mut(&mut self) -> &mut [u32] {
        self.row_mut(0)
    }

    #[inline(always)]
    pub(super) fn row_mut(&mut self, number: usize) -> &mut [u32] {
        // SAFETY: the range was checked; by the module's promise nobody else reads or writes it.
        unsafe { std::slice::from_raw_parts_mut(self.0.start_of(number).cast_mut(), self.0.len) }
    }

    /// What was written, to be read.
    pub(super) fn done(self) -> Run {
        self.0
    }
}

impl Run {
    /// True if an element between the first and the last one is between those of the other.
    pub(super) fn overlaps(&self, other: &RunMut) -> bool {
        let ends = |run: &Self| {
            let last =
                run.start.addr().wrapping_add_signed((run.rows as isize - 1) * run.pitch * size_of::<u32>() as isize);
            (run.start.addr().min(last), run.start.addr().max(last) + run.len * size_of::<u32>())
        };
        let ((a, a_end), (b, b_end)) = (ends(self), ends(&other.0));
        a < b_end && b < a_end
    }
}

// SAFETY: see the module's promise.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// The `bytes` bytes from `start` on.
    ///
    /// # Safety
    /// They are allocated and initialised for as long as the view is used.
    pub(super) unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        Self { start, bytes }
    }

    /// Checks that elements `start`, `start + stride`, … (`len` of them) lie inside, and returns the first's address.
    #[inline(always)]
    fn checked<T>(&self, start: i64, stride: i64, len: usize) -> *mut T {
        let last = start + stride * (len as i64 - 1);
        let limit = (self.bytes / size_of::<T>()) as i64;
        let inside = start >= 0 && start < limit && last >= 0 && last < limit;
        assert!(inside, "elements {start}..={last} of a buffer of {limit}");
        // SAFETY: `start` is below the number of elements.
        unsafe { self.start.cast::<T>().add(start as usize) }
    }

    /// Where so many bytes from element `start` on lie, if there are as many: nothing may be read or written there.
    #[inline]
    pub(super) fn place<T>(&self, start: i64, bytes: usize) -> (*const u8, usize) {
        (self.start.cast::<T>().wrapping_offset(start as isize).cast_const().cast(), bytes)
    }

    /// Where `len` consecutive elements of 32 bits lie, at least one.
    #[inline(always)]
    pub(super) fn run(&self, start: i64, len: usize) -> Run {
        Run { start: self.checked(start, 1, len), len, rows: 1, pitch: 0 }
    }

    /// Where so many rows of `len` consecutive elements of 32 bits lie, `pitch` apart, at least one of each.
    #[inline(always)]
    pub(super) fn rows(&self, start: i64, len: usize, (rows, pitch): (usize, i64)) -> Run {
        Run { start: self.matrix(start, [(pitch, rows), (1, len)]), len, rows, pitch: pitch as isize }
    }

    /// The same, to be written.
    #[inline(always)]
    pub(super) fn rows_mut(&self, start: i64, len: usize, rows: (usize, i64)) -> RunMut {
        RunMut(self.rows(start, len, rows))
    }

    /// The same, to be written.
    #[inline(always)]
    pub(super) fn run_mut(&self, start: i64, len: usize) -> RunMut {
        RunMut(self.run(start, len))
    }

    /// Reads consecutive elements.
    #[inline(always)]
    pub(super) fn read_run<T: Stored>(&self, start: i64, target: &mut [u32]) {
        if target.is_empty() {
            return;
        }
        let source = self.checked::<T>(start, 1, target.len());
        // SAFETY: the range was checked and all bytes are initialised; see the module's promise for other threads.
        unsafe { T::load_run(source, target) };
    }

    /// Reads elements `stride` apart.
    #[inline(always)]
    pub(super) fn read_strided<T: Stored>(&self, start: i64, stride: i64, target: &mut [u32]) {
        if target.is_empty() {
            return;
        }
        let source = self.checked::<T>(start, stride, target.len());
        // SAFETY: first and last element were checked, so all between are inside.
        T::load_each(target, |i| unsafe { source.offset(i as isize * stride as isize).read() });
    }

    /// Checks that a matrix, given by the stride and the count of each direction, lies inside, and returns the address
    /// of its first element, number `start`.
    pub(super) fn matrix<T>(&self, start: i64, directions: [(i64, usize); 2]) -> *const T {
        let (mut low, mut high) = (start, start);
        for (stride, count) in directions {
            let reach = stride * (count as i64 - 1);
            low += reach.min(0);
            high += reach.max(0);
        }
        let limit = (self.bytes / size_of::<T>()) as i64;
        assert!(low >= 0 && high < limit, "elements {low}..={high} of a buffer of {limit}");
        self.checked::<T>(start, 0, 1)
    }

    /// Checks that elements from `base + low` to `base + high` lie inside, and returns the address of number 0.
    #[inline(always)]
    pub(super) fn checked_reach<T>(&self, base: i64, (low, high): (i32, i32)) -> *mut T {
        let (first, last) = (base + i64::from(low), base + i64::from(high));
        let limit = (self.bytes / size_of::<T>()) as i64;
        assert!(first >= 0 && first <= last && last < limit, "elements {first}..={last} of a buffer of {limit}");
        self.start.cast::<T>()
    }

    /// Reads the elements with these numbers; 0 for `nowhere`.
    #[inline(always)]
    pub(super) fn read_at<T: Stored>(&self, indices: &[i64], nowhere: i64, target: &mut [u32]) {
        let limit = (self.bytes / size_of::<T>()) as i64;
        let count = target.len().min(indices.len());
        T::load_each(&mut target[..count], |number| {
            let index = indices[number];
            if index == nowhere {
                return T::zeroed();
            }
            assert!(index >= 0 && index < limit, "element {index} of a buffer of {limit}");
            // SAFETY: the index was checked.
            unsafe { self.start.cast::<T>().add(index as usize).read() }
        });
    }

    /// Writes consecutive elements.
    #[inline(always)]
    pub(super) fn write_run<T: Stored>(&self, start: i64, source: &[u32]) {
        if source.is_empty() {
            return;
        }
        let target = self.checked::<T>(start, 1, source.len());
        // SAFETY: as in `read_run`; what is written comes from registers.
        unsafe { T::store_run(target, source) };
    }

    /// Writes elements `stride` apart.
    #[inline(always)]
    pub(super) fn write_strided<T: Stored>(&self, start: i64, stride: i64, source: &[u32]) {
        if source.is_empty() {
            return;
        }
        let target = self.checked::<T>(start, stride, source.len());
        // SAFETY: first and last element were checked, so all between are inside.
        T::store_each(source, |i, element| unsafe { target.offset(i as isize * stride as isize).write(element) });
    }

    /// Writes the elements with these numbers.
    #[inline(always)]
    pub(super) fn write_at<T: Stored>(&self, indices: &[i64], source: &[u32]) {
        let limit = (self.bytes / size_of::<T>()) as i64;
        let count = source.len().min(indices.len());
        T::store_each(&source[..count], |number, element| {
            let index = indices[number];
            assert!(index >= 0 && index < limit, "element {index} of a buffer of {limit}");
            // SAFETY: the index was checked.
            unsafe { self.start.cast::<T>().add(index as usize).write(element) };
        });
    }
}
