//! Running a compiled tape over one strip: load, compute, store.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use half::f16;
use pulp::Arch;

use super::ahead::Ahead;
use super::elementwise::{self, Arg, CHUNK, Kind, Target};
use super::program::{Action, Operand, Program, Step};
use super::reads::{clamp_indices, spread};
use super::registers::{Held, Registers};
use super::scratch::Threads;
use super::space::Start;
use super::view::{Run, RunMut, View};
use crate::dtype::DType;
use crate::graph::Binary;

/// Elements computed together. A register of them is 4 KiB, so that a dozen stay in the first-level cache.
pub(super) const STRIP: usize = 1024;

/// Elements that are computed together where they are several rows, or no index of an element is needed: those of an
/// epilogue, which has a register or two.
pub(super) const PLANE: usize = 4 * STRIP;

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
    /// The contraction's sums at the strip's points, and words from a row of them to the next.
    pub(super) accumulator: &'a [u32],
    pub(super) pitch: usize,
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

/// What a program runs over at once: walked points of consecutive fixed ones.
#[derive(Clone, Copy)]
pub(super) struct Strip<'a> {
    /// The first one of all.
    pub(super) from: &'a Start,
    pub(super) len: usize,
    /// Fixed points, one unless the program [`has planes`](Program::has_planes).
    pub(super) rows: usize,
}

impl Strip<'_> {
    /// Words from a row to the next in registers.
    pub(super) fn pitch(&self) -> usize {
        self.len.next_multiple_of(CHUNK)
    }
}

impl Program {
    /// Has what a strip of `len` walked points from `start` on will read or write in one piece be fetched while others are
    /// computed.
    pub(super) fn look_ahead(&self, env: &Env<'_>, registers: &mut Registers, (start, len): (usize, usize)) {
        let from = &self.space.start(0, start);
        let loads = self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(access) => Some(access),
            _ => None,
        });
        let Registers { ahead, values, .. } = registers;
        for access in loads.chain(self.stores.iter().map(|(access, _)| access)) {
            if access.position.straight && access.position.stride == 1 && access.scattered.is_empty() {
                let size = access.dtype.size_bytes();
                self.space.walk(&access.forms, (from, len), values, |row, _, count| {
                    let start = access.position.start(row);
                    ahead.add(typed!(env.views[access.buffer], access.dtype, place(start, count * size)));
                });
            }
        }
    }

    /// Whether it computes for longer than memory takes to answer.
    pub(super) fn is_slow(&self) -> bool {
        self.steps.iter().any(|step| match step.action {
            Action::Unary(op, Kind::Float, _) => elementwise::is_slow(op),
            Action::Binary(Binary::Div, Kind::Float, ..) => true,
            _ => false,
        })
    }

    /// Computes and stores `len` walked points from `start` on, at fixed point number `fixed`.
    pub(super) fn run(&self, env: &Env<'_>, registers: &mut Registers, at: (usize, usize, usize), inputs: &Inputs<'_>) {
        let (fixed, start, len) = at;
        self.strip(env, registers, Strip { from: &self.space.start(fixed, start), len, rows: 1 }, inputs);
    }

    /// The same at `fixed` points and those `along` each, with a contraction's sums, at each fixed point so many words
    /// from those at the one before.
    pub(super) fn run_rows(
        &self,
        env: &Env<'_>,
        registers: &mut Registers,
        (fixed, along): (Range<usize>, Range<usize>),
        (sums, pitch): (&[u32], usize),
    ) {
        if self.has_planes {
            registers.reserve_planes(self.slots);
        }
        for start in along.clone().step_by(self.longest()) {
            let len = self.longest().min(along.end - start);
            let has_planes = self.has_planes && len >= CHUNK;
            let mut point = fixed.start;
            while point < fixed.end {
                let from = &self.space.start(point, start);
                let room = PLANE / len.next_multiple_of(CHUNK);
                let rows = if has_planes { room.min(self.space.beside(from)).clamp(1, CHUNK) } else { 1 };
                let rows = rows.min(fixed.end - point);
                let accumulator = &sums[(point - fixed.start) * pitch + start - along.start..];
                let inputs = Inputs { accumulator, pitch, ..Inputs::default() };
                self.strip(env, registers, Strip { from, len, rows }, &inputs);
                point += rows;
            }
        }
    }

    /// Points of a strip, at most.
    fn longest(&self) -> usize {
        if self.has_planes { PLANE } else { STRIP }
    }

    fn strip(&self, env: &Env<'_>, registers: &mut Registers, strip: Strip<'_>, inputs: &Inputs<'_>) {
        let Strip { len, rows, .. } = strip;
        debug_assert!(len > 0 && len <= self.longest(), "a strip of {len} elements");
        let mut written = None;
        let ready = (std::ptr::from_ref(self).addr(), env.run);
        let mut ahead = std::mem::take(&mut registers.ahead);
        let constants = if registers.ready == ready { &[] } else { self.constants.as_slice() };
        let last = (constants.len() + self.steps.len()).saturating_sub(1);
        for (number, step) in constants.iter().chain(&self.steps).enumerate() {
            if number == constants.len() && self.is_shut(registers) {
                break;
            }
            let place = self.written_in_place.filter(|_| number == last);
            if let Some((store, run)) = place.and_then(|store| self.place(store, step, env, registers, strip)) {
                let mut target = Target::Run(run);
                compute(step, env.arch, (registers, &mut ahead), strip.pitch(), &mut target);
                let Target::Run(run) = target else { unreachable!("it was made above") };
                registers.held[step.target.slot] = Held::Buffer(run.done());
                written = Some(store);
                continue;
            }
            let Operand { slot, splat } = step.target;
            let count = match step {
                _ if splat => CHUNK,
                Step { per_row: true, .. } => inputs.spread.results(len).next_multiple_of(CHUNK),
                _ => len.max(CHUNK),
            };
            let mut words = std::mem::take(&mut registers.slots[slot]);
            if step.action.is_loop() {
                let pitch = strip.pitch();
                let (rows, len) = if rows > 1 && !splat { (rows, len) } else { (1, count) };
                let mut target = Target::Words { words: &mut words, rows, len, pitch };
                compute(step, env.arch, (registers, &mut ahead), pitch, &mut target);
                registers.held[slot] = Held::Slot;
            } else if rows > 1 {
                registers.held[slot] = self.take_rows(step, env, registers, strip, inputs, &mut words);
            } else {
                let words = &mut words[..count];
                registers.held[slot] = self.take(step, env, registers, (strip.from, len), inputs, words);
            }
            registers.slots[slot] = words;
        }
        registers.ready = ready;
        registers.ahead = ahead;
        if self.is_shut(registers) {
            return;
        }
        for (number, (access, operand)) in self.stores.iter().enumerate() {
            if written == Some(number) {
                continue;
            }
            if rows > 1 {
                self.store_rows(access, env, registers, strip, operand.slot);
                continue;
            }
            registers.words(*operand, len);
            let at = (strip.from, len);
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

    /// Whether nothing is to be stored in this run, once constants are in their registers.
    fn is_shut(&self, registers: &Registers) -> bool {
        self.gate.is_some_and(|gate| registers.slots[gate][0] == 0)
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
        let points = (&self.space.start(at.0, at.1), at.2);
        self.space.walk(&access.forms, points, &mut registers.values, |row, _, count| {
            if count == points.1 && access.extent(row, count) == (0, count) {
                run = Some(env.views[access.buffer].run(access.position.start(row), count));
            }
        });
        run
    }

    /// Where `step` may write what is stored by number `store`, without a register between: rows of a chunk or more, of
    /// which nothing is read that stands elsewhere.
    fn place(
        &self,
        store: usize,
        step: &Step,
        env: &Env<'_>,
        registers: &mut Registers,
        Strip { from, len, rows }: Strip<'_>,
    ) -> Option<(usize, RunMut)> {
        if len < CHUNK {
            return None;
        }
        let access = &self.stores[store].0;
        let view = &env.views[access.buffer];
        let mut run = None;
        self.space.walk(&access.forms, (from, len), &mut registers.values, |row, _, count| {
            if count == len {
                run = Some(view.rows_mut(access.position.start(row), count, (rows, self.pitch(access))));
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

    /// Leaves what no loop computes in `words`, or says where it lies.
    #[inline]
    pub(super) fn take(
        &self,
        step: &Step,
        env: &Env<'_>,
        registers: &mut Registers,
        at: (&Start, usize),
        inputs: &Inputs<'_>,
        words: &mut [u32],
    ) -> Held {
        let len = at.1;
        let arch = env.arch;
        let splat = step.target.splat;
        // A splat is computed at the strip's first point.
        let points = if splat { (at.0, 1) } else { at };
        match &step.action {
            Action::Const(bits) => words.fill(*bits),
            Action::Uniform(number) => words.fill(env.uniforms[*number]),
            Action::Coord(access) => {
                let Registers { indices, values, .. } = registers;
                self.space.walk(&access.forms, points, values, |row, begin, count| {
                    access.position.fill_words(arch, row, &mut indices[..count], &mut words[begin..begin + count]);
                });
            }
            Action::Valid(access) => self.valid(access, registers, points, words),
            Action::Load(access) => {
                // No less than a chunk: the elements behind it may be another thread's.
                let stay = step.may_stay && !splat && len == words.len();
                if let Some(held) = self.load(access, env, registers, points, (words, stay)) {
                    return held;
                }
            }
            Action::Gather { access, stride, value } => {
                self.gather(env, (access, *stride, value), registers, points, words);
            }
            Action::CheckIndex { value, signed, bound, site } => {
                // beyond the strip's points there is no element that could be wrong
                if clamp_indices(&registers.slots[value.slot], *signed, *bound, &mut words[..points.1]) {
                    env.status.fetch_max(*site, Ordering::Relaxed);
                }
            }
            Action::Random { access, stream, seed, position } => {
                self.random(arch, (access, *stream, [seed, position]), registers, points, words);
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
                let results = &registers.slots[value.slot];
                return spread(results, inputs.spread.counted_from_zero(), step.may_stay, &mut words[..len]);
            }
            Action::Accumulator if step.may_stay && len == words.len() => {
                return Held::Buffer(Run::of(inputs.accumulator, len, (1, 0)));
            }
            Action::Accumulator => words[..len].copy_from_slice(&inputs.accumulator[..len]),
            _ => unreachable!("{step:?} is a loop"),
        }
        if splat {
            let bits = words[0];
            words.fill(bits);
        }
        Held::Slot
    }
}

/// Leaves in `target` what a loop computes of registers, rows of which are `pitch` words apart.
fn compute(
    step: &Step,
    arch: Arch,
    (registers, ahead): (&Registers, &mut Ahead),
    pitch: usize,
    target: &mut Target<'_>,
) {
    let arg = |operand: &Operand| {
        // one word for each row, or all the same
        let of_rows = step.target.splat.then(|| Arg::Words(&registers.slots[operand.slot], 0));
        of_rows.unwrap_or_else(|| registers.arg(*operand, pitch))
    };
    match &step.action {
        Action::Unary(op, kind, a) => elementwise::unary(arch, (*op, *kind), target, arg(a), ahead),
        Action::Binary(op, kind, a, b) => elementwise::binary(arch, (*op, *kind), target, [arg(a), arg(b)], ahead),
        Action::Pair { ops, operands, swapped } => {
            elementwise::pair(arch, (*ops, *swapped), target, operands.each_ref().map(arg));
        }
        Action::Select(c, a, b) => elementwise::select(arch, target, arg(c), arg(a), arg(b)),
        Action::Cast(from, to, a) => elementwise::cast(arch, *from, *to, target, arg(a)),
        Action::Copy(a) => elementwise::cast(arch, Kind::Word, DType::U32, target, arg(a)),
        _ => unreachable!("{step:?} is no loop"),
    }
}
