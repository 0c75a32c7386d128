//! Running a compiled tape over one strip: load, compute, store.

use std::sync::atomic::{AtomicU32, Ordering};

use half::f16;
use pulp::Arch;

use super::access::{Access, numbers};
use super::elementwise::{self, Arg, CHUNK};
use super::philox;
use super::program::{Action, Operand, Program, Step};
use super::recipe::Recipes;
use super::scratch::Threads;
use super::view::{Run, RunMut, View};
use super::words::Words;
use crate::dtype::DType;

/// Elements computed together. A register of them is 4 KiB, so that a dozen stay in the first-level cache.
pub(super) const STRIP: usize = 1024;

/// Marks an element that must not be touched.
pub(super) const NOWHERE: i64 = -1;

/// What a plan's kernels share during one run.
#[derive(Clone, Copy)]
pub(super) struct Env<'a> {
    pub(super) arch: Arch,
    pub(super) views: &'a [View],
    /// Operands that are packed already.
    pub(super) packed: &'a [View],
    pub(super) uniforms: &'a [u32],
    pub(super) status: &'a AtomicU32,
    pub(super) threads: Threads<'a>,
    /// Another number for each run of a plan.
    pub(super) run: u64,
}

/// What a tape reads besides buffers.
#[derive(Clone, Copy, Default)]
pub(super) struct Inputs<'a> {
    /// For each reduction its results, one per row or column.
    pub(super) reduced: &'a [Vec<u32>],
    /// Which of the results each of the strip's points belongs to.
    pub(super) spread: Spread,
    /// The contraction's sums at the strip's points.
    pub(super) accumulator: &'a [u32],
}

/// How the results of reductions are spread over a strip's points.
#[derive(Clone, Copy)]
pub(super) enum Spread {
    /// Each result from number `first` on stands for `row` points, of which the strip leaves out the first `skip`.
    Rows { first: usize, row: usize, skip: usize },
    /// Points run through the `width` results from number `first` on, again and again.
    Columns { first: usize, width: usize },
}

impl Spread {
    /// Results that a strip of `len` points takes.
    fn results(&self, len: usize) -> usize {
        match *self {
            Self::Rows { row, skip, .. } => (skip + len).div_ceil(row),
            Self::Columns { width, .. } => width,
        }
    }

    /// The same of results that begin with the strip's.
    fn counted_from_zero(self) -> Self {
        match self {
            Self::Rows { row, skip, .. } => Self::Rows { first: 0, row, skip },
            Self::Columns { width, .. } => Self::Columns { first: 0, width },
        }
    }
}

impl Default for Spread {
    fn default() -> Self {
        Self::Columns { first: 0, width: 1 }
    }
}

/// Where a register's value is.
#[derive(Clone, Copy)]
enum Held {
    /// In its slot: a word for each element, or a chunk that stands for all if the operand is a splat.
    Slot,
    /// In its slot, a chunk that stands for all of this strip's elements.
    Splat,
    /// In a buffer, or among a contraction's sums: not copied, or computed right there.
    Buffer(Run),
}

/// The memory of one strip's values.
#[derive(Default)]
pub(super) struct Registers {
    slots: Vec<Words>,
    held: Vec<Held>,
    indices: Vec<i64>,
    tested: Vec<i64>,
    values: Vec<i64>,
    recipes: Recipes,
    /// The program whose constants are in their registers, by its address, and the run that it was in.
    ready: (usize, u64),
}

impl Registers {
    /// Makes sure that there are `count` registers.
    pub(super) fn reserve(&mut self, count: usize) {
        if self.slots.len() < count {
            self.slots.resize_with(count, Words::default);
            self.slots.iter_mut().for_each(|slot| slot.reserve(STRIP));
            self.held.resize(count, Held::Slot);
        }
        self.indices.resize(STRIP, 0);
        self.tested.resize(STRIP, 0);
    }

    fn arg(&self, operand: Operand) -> Arg<'_> {
        let slot = &self.slots[operand.slot];
        match &self.held[operand.slot] {
            Held::Slot => Arg { words: slot, splat: operand.splat },
            Held::Splat => Arg { words: slot, splat: true },
            Held::Buffer(run) => Arg { words: run.words(), splat: operand.splat },
        }
    }

    /// The first `len` words of a value; a splat is spread first.
    pub(super) fn words(&mut self, operand: Operand, len: usize) -> &[u32] {
        let held = self.held[operand.slot];
        if let Held::Buffer(run) = &self.held[operand.slot] {
            return &run.words()[..len];
        }
        let words = &mut self.slots[operand.slot];
        if (operand.splat || matches!(held, Held::Splat)) && len > CHUNK {
            let bits = words[0];
            words[CHUNK..len].fill(bits);
        }
        &words[..len]
    }
}

/// Calls `$method::<T>` of a view with the type that `$dtype` has in memory.
macro_rules! typed {
    ($view:expr, $dtype:expr, $method:ident ( $($arg:expr),* )) => {
        match $dtype {
            DType::F32 | DType::I32 | DType::U32 => $view.$method::<u32>($($arg),*),
            DType::F16 => $view.$method::<f16>($($arg),*),
            DType::U8 | DType::Bool => $view.$method::<u8>($($arg),*),
        }
    };
}
pub(super) use typed;

impl Program {
    /// Computes and stores `len` walked points from `start` on, at fixed point number `fixed`.
    pub(super) fn run(&self, env: &Env<'_>, registers: &mut Registers, at: (usize, usize, usize), inputs: &Inputs<'_>) {
        let len = at.2;
        debug_assert!(len <= STRIP && len > 0, "a strip of {len} elements");
        let mut written = None;
        let ready = (std::ptr::from_ref(self).addr(), env.run);
        let constants = if registers.ready == ready { &[] } else { self.constants.as_slice() };
        let last = (constants.len() + self.steps.len()).saturating_sub(1);
        for (number, step) in constants.iter().chain(&self.steps).enumerate() {
            let place = self.written_in_place.filter(|_| number == last);
            if let Some((store, mut run)) = place.and_then(|store| self.place(store, step, env, registers, at)) {
                self.compute(step, env, registers, at, inputs, run.words_mut());
                registers.held[step.target.slot] = Held::Buffer(run.done());
                written = Some(store);
                continue;
            }
            let count = match step {
                Step { target: Operand { splat: true, .. }, .. } => CHUNK,
                Step { per_row: true, .. } => inputs.spread.results(len).next_multiple_of(CHUNK),
                _ => len.next_multiple_of(CHUNK),
            };
            let mut target = std::mem::take(&mut registers.slots[step.target.slot]);
            let held = self.compute(step, env, registers, at, inputs, &mut target[..count]);
            registers.slots[step.target.slot] = target;
            registers.held[step.target.slot] = held;
        }
        registers.ready = ready;
        for (number, (access, operand)) in self.stores.iter().enumerate() {
            if written == Some(number) {
                continue;
            }
            registers.words(*operand, len);
            let Registers { slots, held, indices, tested, values, recipes, .. } = &mut *registers;
            let words = match &held[operand.slot] {
                Held::Buffer(run) => run.words(),
                Held::Slot | Held::Splat => &slots[operand.slot],
            };
            let view = &env.views[access.buffer];
            self.space.walk(&access.forms, at, values, |row, begin, count| {
                let words = &words[begin..begin + count];
                if access.position.straight {
                    let start = access.position.start(row);
                    match access.position.stride {
                        1 => typed!(view, access.dtype, write_run(start, words)),
                        stride => typed!(view, access.dtype, write_strided(start, stride, words)),
                    }
                } else if let Some(line) = access.line.filter(|line| line.stride == 1) {
                    access.position.for_each_line(row, (count, line), |begin, start, count| {
                        typed!(view, access.dtype, write_run(start, &words[begin..begin + count]));
                    });
                } else if let Some((base, offsets)) = recipes.of(access, row, count, (indices, tested)) {
                    offsets.write(view, access.dtype, base, words);
                } else {
                    access.position.fill(row, &mut indices[..count]);
                    typed!(view, access.dtype, write_at(&indices[..count], words));
                }
            });
        }
    }

    /// Where the walked points `at` lie, if the program's results are nothing but them, loaded, and they lie next to
    /// each other. They may be any number.
    pub(super) fn lying(&self, env: &Env<'_>, registers: &mut Registers, at: (usize, usize, usize)) -> Option<Run> {
        let [Step { target, action: Action::Load(access), may_stay: true, .. }] = self.steps.as_slice() else {
            return None;
        };
        let is_run = access.position.straight && access.position.stride == 1 && access.scattered.is_empty();
        // what is the same everywhere is no step
        let is_all = self.stores.is_empty() && self.results.iter().all(|result| result.slot == target.slot);
        if target.splat || !is_run || access.dtype.size_bytes() != size_of::<u32>() || !is_all {
            return None;
        }
        let mut run = None;
        self.space.walk(&access.forms, at, &mut registers.values, |row, _, count| {
            if count == at.2 && access.extent(row, count) == (0, count) {
                run = Some(env.views[access.buffer].run(access.position.start(row), count));
            }
        });
        run
    }

    /// Where `step` may write what is stored by number `store`, without a register between: one run of whole chunks, of
    /// which nothing is read that stands elsewhere.
    fn place(
        &self,
        store: usize,
        step: &Step,
        env: &Env<'_>,
        registers: &mut Registers,
        at: (usize, usize, usize),
    ) -> Option<(usize, RunMut)> {
        let len = at.2;
        if !len.is_multiple_of(CHUNK) {
            return None;
        }
        let access = &self.stores[store].0;
        let mut run = None;
        self.space.walk(&access.forms, at, &mut registers.values, |row, _, count| {
            if count == len {
                run = Some(env.views[access.buffer].run_mut(access.position.start(row), count));
            }
        });
        run.filter(|run| {
            step.action.operands().all(|operand| match &registers.held[operand.slot] {
                Held::Buffer(read) => !read.overlaps(run),
                Held::Slot | Held::Splat => true,
            })
        })
        .map(|run| (store, run))
    }

    /// Leaves the step's value in `words`, or says where it lies.
    #[inline]
    fn compute(
        &self,
        step: &Step,
        env: &Env<'_>,
        registers: &mut Registers,
        at: (usize, usize, usize),
        inputs: &Inputs<'_>,
        words: &mut [u32],
    ) -> Held {
        let len = at.2;
        let arch = env.arch;
        let splat = step.target.splat;
        // A splat is computed at the strip's first point.
        let points = if splat { (at.0, at.1, 1) } else { at };
        match &step.action {
            Action::Const(bits) => words.fill(*bits),
            Action::Uniform(number) => words.fill(env.uniforms[*number]),
            Action::Coord(access) => {
                let Registers { indices, values, .. } = registers;
                self.space.walk(&access.forms, points, values, |row, begin, count| {
                    access.position.fill_words(arch, row, &mut indices[..count], &mut words[begin..begin + count]);
                });
            }
            Action::Valid(access) => {
                let Registers { indices, tested, values, .. } = registers;
                self.space.walk(&access.forms, points, values, |row, begin, count| {
                    if access.scattered.is_empty() {
                        let (low, high) = access.extent(row, count);
                        words[begin..begin + count].fill(0);
                        words[begin + low..begin + high].fill(1);
                        return;
                    }
                    numbers(access, row, &mut indices[..count], tested);
                    for (word, &index) in words[begin..].iter_mut().zip(&indices[..count]) {
                        *word = u32::from(index != NOWHERE);
                    }
                });
            }
            Action::Load(access) => {
                // Whole chunks only: the elements behind them may be another thread's.
                let stay = step.may_stay && !splat && len == words.len();
                if let Some(held) = self.load(access, env, registers, points, (words, stay)) {
                    return held;
                }
            }
            Action::Gather { access, stride, value } => {
                let Registers { slots, indices, tested, values, .. } = registers;
                let value = (&slots[value.slot], value.splat);
                self.space.walk(&access.forms, points, values, |row, begin, count| {
                    let indices = &mut indices[..count];
                    numbers(access, row, indices, tested);
                    for (i, index) in indices.iter_mut().enumerate() {
                        let offset = value.0[if value.1 { 0 } else { begin + i }];
                        *index = if *index == NOWHERE { NOWHERE } else { *index + stride * i64::from(offset) };
                    }
                    let view = &env.views[access.buffer];
                    typed!(view, access.dtype, read_at(indices, NOWHERE, &mut words[begin..begin + count]));
                });
            }
            Action::Unary(op, kind, a) => elementwise::unary(arch, *op, *kind, words, registers.arg(*a)),
            Action::Binary(op, kind, a, b) => {
                elementwise::binary(arch, *op, *kind, words, registers.arg(*a), registers.arg(*b));
            }
            Action::Select(c, a, b) => {
                elementwise::select(arch, words, registers.arg(*c), registers.arg(*a), registers.arg(*b));
            }
            Action::Cast(from, to, a) => elementwise::cast(arch, *from, *to, words, registers.arg(*a)),
            Action::Copy(a) => elementwise::cast(arch, elementwise::Kind::Word, DType::U32, words, registers.arg(*a)),
            Action::CheckIndex { value, signed, bound, site } => {
                let arg = registers.arg(*value);
                let mut outside = false;
                // Beyond `len` there is no element that could be wrong.
                for (word, &bits) in words[..points.2].iter_mut().zip(arg.words) {
                    let below = *signed && bits.cast_signed() < 0;
                    outside |= below || bits >= *bound;
                    *word = if below { 0 } else { bits.min(bound.saturating_sub(1)) };
                }
                if outside {
                    env.status.fetch_max(*site, Ordering::Relaxed);
                }
            }
            Action::Random { access, stream, seed, position } => {
                let Registers { slots, indices, values, .. } = registers;
                let word = |operand: &Operand, i: usize| slots[operand.slot][if operand.splat { 0 } else { i }];
                let one_key = seed.splat && position.splat;
                self.space.walk(&access.forms, points, values, |row, begin, count| {
                    let words = &mut words[begin..begin + count];
                    if one_key && access.position.straight && access.position.stride == 1 {
                        let start = access.position.start(row);
                        philox::fill_run(arch, start, *stream, word(position, 0), word(seed, 0), words);
                        return;
                    }
                    let indices = &mut indices[..count];
                    access.position.fill(row, indices);
                    if one_key {
                        philox::fill_at(indices, *stream, word(position, 0), word(seed, 0), words);
                    } else {
                        for i in 0..count {
                            let (position, seed) = (word(position, begin + i), word(seed, begin + i));
                            philox::fill_at(&indices[i..=i], *stream, position, seed, &mut words[i..=i]);
                        }
                    }
                });
            }
            Action::Reduced(number) => {
                let results = &inputs.reduced[*number];
                if step.per_row {
                    let (Spread::Rows { first, .. } | Spread::Columns { first, .. }) = inputs.spread;
                    let count = inputs.spread.results(len);
                    words[..count].copy_from_slice(&results[first..first + count]);
                    return Held::Slot;
                }
                return spread(results, inputs.spread, step.may_stay, &mut words[..len]);
            }
            Action::Spread(value) => {
                let results = registers.arg(*value).words;
                return spread(results, inputs.spread.counted_from_zero(), step.may_stay, &mut words[..len]);
            }
            Action::Accumulator if step.may_stay && len == words.len() => {
                return Held::Buffer(Run::of(&inputs.accumulator[..len]));
            }
            Action::Accumulator => words[..len].copy_from_slice(&inputs.accumulator[..len]),
        }
        if splat {
            let bits = words[0];
            words.fill(bits);
        }
        Held::Slot
    }

    /// Copies elements into `words`; if they may `stay` where they are, and lie there next to each other, says where
    /// instead. Of none at all, that a chunk of zeros stands for them.
    fn load(
        &self,
        access: &Access,
        env: &Env<'_>,
        registers: &mut Registers,
        points: (usize, usize, usize),
        (words, stay): (&mut [u32], bool),
    ) -> Option<Held> {
        let mut direct = None;
        let view = &env.views[access.buffer];
        let Registers { indices, tested, values, recipes, .. } = registers;
        let position = &access.position;
        self.space.walk(&access.forms, points, values, |row, begin, count| {
            let words = &mut words[begin..begin + count];
            if !position.straight || !access.scattered.is_empty() {
                if let Some(line) = access.line {
                    position.for_each_line(row, (count, line), |begin, start, count| {
                        let words = &mut words[begin..begin + count];
                        match line.stride {
                            0 => read_same(view, access.dtype, start, words),
                            _ => typed!(view, access.dtype, read_run(start, words)),
                        }
                    });
                } else if let Some((base, offsets)) = recipes.of(access, row, count, (indices, tested)) {
                    offsets.read(env.arch, view, access.dtype, base, words);
                } else {
                    numbers(access, row, &mut indices[..count], tested);
                    typed!(view, access.dtype, read_at(&indices[..count], NOWHERE, words));
                }
                return;
            }
            let (low, high) = access.extent(row, count);
            if stay && high - low == points.2 && position.stride == 1 && access.dtype.size_bytes() == size_of::<u32>() {
                direct = Some(Held::Buffer(view.run(position.start(row), count)));
                return;
            }
            if stay && low == high && count == points.2 {
                words[..CHUNK].fill(0);
                direct = Some(Held::Splat);
                return;
            }
            words[..low].fill(0);
            words[high..].fill(0);
            let words = &mut words[low..high];
            if words.is_empty() {
                return;
            }
            let start = position.start(row) + position.stride * low as i64;
            match position.stride {
                1 => typed!(view, access.dtype, read_run(start, words)),
                0 => read_same(view, access.dtype, start, words),
                stride => typed!(view, access.dtype, read_strided(start, stride, words)),
            }
        });
        direct
    }
}

/// Reads one element for all `words`, of which there is at least one.
#[inline(always)]
fn read_same(view: &View, dtype: DType, start: i64, words: &mut [u32]) {
    typed!(view, dtype, read_run(start, &mut words[..1]));
    let bits = words[0];
    words.fill(bits);
}

/// Fills a register with one result for each row; of a single row, a chunk of it if one may stand for all.
fn spread(results: &[u32], spread: Spread, one_may_do: bool, mut rest: &mut [u32]) -> Held {
    match spread {
        Spread::Rows { first, row, skip } if one_may_do && skip + rest.len() <= row => {
            let len = rest.len().min(CHUNK);
            rest[..len].fill(results[first]);
            return Held::Splat;
        }
        Spread::Rows { first, row, mut skip } => {
            for &bits in &results[first..] {
                let (now, later) = rest.split_at_mut((row - skip).min(rest.len()));
                now.fill(bits);
                if later.is_empty() {
                    break;
                }
                rest = later;
                skip = 0;
            }
        }
        Spread::Columns { first, width } => {
            for words in rest.chunks_mut(width) {
                words.copy_from_slice(&results[first..first + words.len()]);
            }
        }
    }
    Held::Slot
}
