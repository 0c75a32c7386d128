//! Walks over everything in a kernel's body that names a buffer, an index or a value.

use std::collections::BTreeSet;
use std::ops::Range;

use super::index::{Cond, Ix};
use super::kernel::{Body, BufferId, InstrOp, Store, Tape, ValueId};
use super::routine::{Routine, Span};

impl InstrOp {
    /// The values it reads.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + use<> {
        let values = match *self {
            Self::Gather { value, .. } | Self::CheckIndex { value, .. } => [Some(value), None, None],
            Self::Unary(_, a) | Self::Cast(a) | Self::Bitcast(a) => [Some(a), None, None],
            Self::Binary(_, a, b) | Self::Random { seed: a, position: b, .. } => [Some(a), Some(b), None],
            Self::Select(a, b, c) => [Some(a), Some(b), Some(c)],
            Self::Const(_)
            | Self::Uniform(_)
            | Self::Coord(_)
            | Self::Valid(_)
            | Self::Load { .. }
            | Self::Reduced(_)
            | Self::Accumulator => [None; 3],
        };
        values.into_iter().flatten()
    }

    /// Whether it is there for what it finds, even if nobody reads its value.
    pub fn is_check(&self) -> bool {
        matches!(self, Self::CheckIndex { .. })
    }

    /// Replaces every value it reads.
    pub fn map_values(&mut self, f: impl Fn(ValueId) -> ValueId) {
        match self {
            Self::Gather { value, .. } | Self::CheckIndex { value, .. } => *value = f(*value),
            Self::Unary(_, a) | Self::Cast(a) | Self::Bitcast(a) => *a = f(*a),
            Self::Binary(_, a, b) | Self::Random { seed: a, position: b, .. } => (*a, *b) = (f(*a), f(*b)),
            Self::Select(a, b, c) => (*a, *b, *c) = (f(*a), f(*b), f(*c)),
            Self::Const(_)
            | Self::Uniform(_)
            | Self::Coord(_)
            | Self::Valid(_)
            | Self::Load { .. }
            | Self::Reduced(_)
            | Self::Accumulator => {}
        }
    }
}

impl Tape {
    /// Replaces every index expression.
    pub fn map_indices(&mut self, f: &mut impl FnMut(&Ix) -> Ix) {
        let conditions = |valid: &mut Vec<Cond>, f: &mut dyn FnMut(&Ix) -> Ix| {
            for condition in valid {
                *condition = condition.map(&mut *f);
            }
        };
        for instr in &mut self.instrs {
            match &mut instr.op {
                InstrOp::Coord(index) | InstrOp::Random { counter: index, .. } => *index = f(index),
                InstrOp::Valid(valid) => conditions(valid, f),
                InstrOp::Load { index, valid, .. } | InstrOp::Gather { base: index, valid, .. } => {
                    *index = f(index);
                    conditions(valid, f);
                }
                _ => {}
            }
        }
    }

    /// Calls `f` for every index expression, those of conditions among them.
    pub fn for_each_index(&self, f: &mut impl FnMut(&Ix)) {
        for instr in &self.instrs {
            match &instr.op {
                InstrOp::Coord(index) | InstrOp::Random { counter: index, .. } => f(index),
                InstrOp::Valid(valid) => valid.iter().for_each(|condition| f(condition.value())),
                InstrOp::Load { index, valid, .. } | InstrOp::Gather { base: index, valid, .. } => {
                    f(index);
                    valid.iter().for_each(|condition| f(condition.value()));
                }
                _ => {}
            }
        }
    }

    /// Which values the roots are made of, themselves among them, where the `given` ones are there.
    pub fn needed(&self, roots: impl Iterator<Item = ValueId>, given: &[ValueId]) -> Vec<bool> {
        let mut needed = vec![false; self.instrs.len()];
        roots.for_each(|root| needed[root] = true);
        for (id, instr) in self.instrs.iter().enumerate().rev() {
            if needed[id] && !given.contains(&id) {
                instr.op.values().for_each(|value| needed[value] = true);
            }
        }
        needed
    }

    /// The instructions that check indices.
    pub fn checks(&self) -> impl Iterator<Item = ValueId> + '_ {
        let instrs = self.instrs.iter().enumerate();
        instrs.filter(|(_, instr)| instr.op.is_check()).map(|(id, _)| id)
    }

    /// Buffers it reads, with repetition.
    pub fn loads(&self) -> impl Iterator<Item = BufferId> + '_ {
        self.instrs.iter().filter_map(|instr| match instr.op {
            InstrOp::Load { buffer, .. } | InstrOp::Gather { buffer, .. } => Some(buffer),
            _ => None,
        })
    }
}

impl Body {
    /// All code of the kernel.
    pub fn tapes(&self) -> Vec<&Tape> {
        match self {
            Self::Loop(kernel) => kernel.phases.iter().map(|phase| &phase.tape).collect(),
            Self::Contract(kernel) => vec![&kernel.lhs.0, &kernel.rhs.0, &kernel.epilogue],
            Self::Routine(_) => Vec::new(),
        }
    }

    fn tapes_mut(&mut self) -> Vec<&mut Tape> {
        match self {
            Self::Loop(kernel) => kernel.phases.iter_mut().map(|phase| &mut phase.tape).collect(),
            Self::Contract(kernel) => vec![&mut kernel.lhs.0, &mut kernel.rhs.0, &mut kernel.epilogue],
            Self::Routine(_) => Vec::new(),
        }
    }

    /// All writes of the kernel.
    pub fn stores(&self) -> Vec<&Store> {
        match self {
            Self::Loop(kernel) => kernel.phases.iter().flat_map(|phase| &phase.stores).collect(),
            Self::Contract(kernel) => kernel.stores.iter().collect(),
            Self::Routine(_) => Vec::new(),
        }
    }

    fn stores_mut(&mut self) -> Vec<&mut Store> {
        match self {
            Self::Loop(kernel) => kernel.phases.iter_mut().flat_map(|phase| &mut phase.stores).collect(),
            Self::Contract(kernel) => kernel.stores.iter_mut().collect(),
            Self::Routine(_) => Vec::new(),
        }
    }

    /// Replaces every index expression.
    pub(crate) fn map_indices(&mut self, mut f: impl FnMut(&Ix) -> Ix) {
        for tape in self.tapes_mut() {
            tape.map_indices(&mut f);
        }
        for store in self.stores_mut() {
            store.index = f(&store.index);
        }
    }

    /// The part of it at these points of `axis` alone, which it counts from 0.
    pub(crate) fn within(&self, axis: usize, points: Range<usize>) -> Self {
        let mut body = self.clone();
        let axes = match &mut body {
            Self::Loop(kernel) => &mut kernel.axes,
            Self::Contract(kernel) => &mut kernel.axes,
            Self::Routine(_) => unreachable!("a routine has no axes to cut"),
        };
        axes[axis] = points.len();
        let sizes = axes.clone();
        let mut coordinates: Vec<Ix> = (0..sizes.len()).map(Ix::axis).collect();
        let first = Ix::constant(points.start as i64);
        coordinates[axis] = if points.len() == 1 { first } else { coordinates[axis].plus(&first) };
        body.map_indices(|ix| ix.substitute(&coordinates, &sizes));
        body
    }

    /// Calls `f` for every index expression.
    pub fn for_each_index(&self, mut f: impl FnMut(&Ix)) {
        for tape in self.tapes() {
            tape.for_each_index(&mut f);
        }
        for store in self.stores() {
            f(&store.index);
        }
    }

    /// Buffers it reads.
    pub(crate) fn reads(&self) -> BTreeSet<BufferId> {
        match self {
            Self::Routine(routine) => routine.inputs.iter().map(|span| span.buffer).collect(),
            _ => self.tapes().iter().flat_map(|tape| tape.loads()).collect(),
        }
    }

    /// Buffers it writes.
    pub(crate) fn writes(&self) -> BTreeSet<BufferId> {
        match self {
            Self::Routine(Routine { output, .. }) => {
                (output.elements > 0).then_some(output.buffer).into_iter().collect()
            }
            _ => self.stores().iter().map(|store| store.buffer).collect(),
        }
    }

    /// The buffers it reads and writes, each once, in the order in which its code names them.
    pub(crate) fn in_order_of_use(&self) -> Vec<BufferId> {
        let mut buffers: Vec<BufferId> = match self {
            Self::Routine(routine) => routine.inputs.iter().chain([&routine.output]).map(|span| span.buffer).collect(),
            _ => {
                let loads = self.tapes().into_iter().flat_map(Tape::loads);
                loads.chain(self.stores().into_iter().map(|store| store.buffer)).collect()
            }
        };
        let mut seen = BTreeSet::new();
        buffers.retain(|&buffer| seen.insert(buffer));
        buffers
    }

    /// Counts the elements of each buffer from its element `first(buffer)` on.
    pub(crate) fn rebase(&mut self, first: impl Fn(BufferId) -> usize) {
        self.for_each_span(|span| {
            span.offset = span.offset.saturating_sub(first(span.buffer)); // empty ones may lie anywhere
        });
        self.for_each_access(|buffer, index| index.offset -= first(*buffer) as i64);
    }

    /// Of each write into `buffer` the elements from the first to the last one that it may touch.
    pub(crate) fn written(&self, buffer: BufferId) -> Vec<Range<usize>> {
        if let Self::Routine(Routine { output, .. }) = self {
            return if output.buffer == buffer { vec![output.range()] } else { Vec::new() };
        }
        let stores = self.stores().into_iter().filter(|store| store.buffer == buffer);
        let ranges = stores.map(|store| store.index.range(self.axes()));
        ranges.map(|(first, last)| first as usize..last as usize + 1).collect()
    }

    /// Replaces buffer numbers.
    pub(crate) fn map_buffers(&mut self, f: impl Fn(BufferId) -> BufferId) {
        self.for_each_span(|span| span.buffer = f(span.buffer));
        self.for_each_access(|buffer, _| *buffer = f(*buffer));
    }

    /// Calls `f` for everything that a routine reads or writes.
    fn for_each_span(&mut self, f: impl FnMut(&mut Span)) {
        if let Self::Routine(routine) = self {
            routine.inputs.iter_mut().chain([&mut routine.output]).for_each(f);
        }
    }

    /// Calls `f` for every load, gather and store, with its buffer and the element there.
    fn for_each_access(&mut self, mut f: impl FnMut(&mut BufferId, &mut Ix)) {
        for instr in self.tapes_mut().into_iter().flat_map(|tape| &mut tape.instrs) {
            if let InstrOp::Load { buffer, index, .. } | InstrOp::Gather { buffer, base: index, .. } = &mut instr.op {
                f(buffer, index);
            }
        }
        for store in self.stores_mut() {
            f(&mut store.buffer, &mut store.index);
        }
    }

    /// Replaces the sites of index checks.
    pub(super) fn map_sites(&mut self, f: impl Fn(u32) -> u32) {
        for tape in self.tapes_mut() {
            for instr in &mut tape.instrs {
                if let InstrOp::CheckIndex { site, .. } = &mut instr.op {
                    *site = f(*site);
                }
            }
        }
    }

    /// Sizes of the axes.
    pub fn axes(&self) -> &[usize] {
        match self {
            Self::Loop(kernel) => &kernel.axes,
            Self::Contract(kernel) => &kernel.axes,
            Self::Routine(_) => &[],
        }
    }

    /// How many axes belong to each group: (outer, inner), or (batch, m, n, k).
    pub(super) fn axis_counts(&self) -> Vec<usize> {
        match self {
            Self::Loop(kernel) => vec![kernel.outer, kernel.axes.len() - kernel.outer],
            Self::Contract(kernel) => kernel.counts.to_vec(),
            Self::Routine(_) => Vec::new(),
        }
    }

    pub(super) fn set_axes(&mut self, axes: Vec<usize>, counts: &[usize]) {
        match self {
            Self::Loop(kernel) => {
                kernel.axes = axes;
                kernel.outer = counts[0];
            }
            Self::Contract(kernel) => {
                kernel.axes = axes;
                kernel.counts = [counts[0], counts[1], counts[2], counts[3]];
            }
            Self::Routine(_) => {}
        }
    }
}
