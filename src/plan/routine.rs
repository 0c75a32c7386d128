//! Routines: kernels that tapes cannot say, as their course depends on data, or their loops are their own (attention).
//! They read and write whole values in row-major order, or a run of consecutive elements of one, and share a kernel with
//! nothing.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::custom::Invocation;
use crate::dtype::DType;
use crate::graph::{Attention, Op, Program, Runs, Search, Segments};
use crate::ops::scan::{self, Scan};
use crate::ops::{attention, sort};

use super::emit::Context;
use super::kernel::BufferId;
use super::simplify::always_inside;

/// One of the fixed kernels, with what it works on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Routine {
    /// Which one.
    pub kind: RoutineKind,
    /// What it reads, in the order of the op's inputs.
    pub inputs: Vec<Span>,
    /// What it writes, all of it; in none of the buffers that it reads.
    pub output: Span,
}

/// What a routine does; [`Op`] defines each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RoutineKind {
    /// [`Op::Sort`]: keys to pairs.
    Sort(Runs),
    /// [`Op::Merge`]: pairs to pairs.
    Merge(Runs),
    /// [`Op::Search`]: (rows, queries) to numbers of elements.
    Search(Search),
    /// [`Op::Segments`], and the values' type: (values, starts) or (values, starts, pairs) to sums.
    Segments(Segments, DType),
    /// [`Op::Scan`]: values or (values, what blocks begin with) to results.
    Scan(Scan),
    /// [`Op::Attention`].
    Attention(Attention),
    /// [`Op::Kernel`]: as the application says.
    Custom(Arc<Invocation>),
}

/// Consecutive elements of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// Which buffer.
    pub buffer: BufferId,
    /// First element.
    pub offset: usize,
    /// How many.
    pub elements: usize,
}

impl Span {
    /// Its elements' numbers in the buffer.
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.elements
    }
}

/// True for ops that are routines.
pub(super) fn is_routine(op: &Op) -> bool {
    matches!(
        op,
        Op::Sort(_)
            | Op::Merge(_)
            | Op::Search(_)
            | Op::Segments(_)
            | Op::Scan { .. }
            | Op::Attention(_)
            | Op::Kernel(_)
    )
}

/// Where in its input a moved value starts, if it is that many consecutive elements of it.
pub(super) fn start_within(program: &Program, number: usize) -> Option<usize> {
    let node = &program.nodes[number];
    let view = match &node.op {
        Op::Reshape => return Some(0),
        Op::View(view) => view,
        _ => return None,
    };
    let from = &program.nodes[node.inputs[0]].shape;
    if node.shape.numel() == 0 {
        return None;
    }
    let (mut start, mut strides) = (0, vec![0; node.shape.rank()]);
    for ((dim, &size), stride) in view.dims.iter().zip(from.dims()).zip(from.strides()) {
        if !always_inside(dim, &node.shape, size) {
            return None;
        }
        start += dim.offset * stride as i64;
        dim.terms.iter().for_each(|&(axis, coefficient)| strides[axis] += coefficient * stride as i64);
    }
    let mut axes = node.shape.dims().iter().zip(strides).zip(node.shape.strides());
    axes.all(|((&size, stride), wanted)| size == 1 || stride == wanted as i64).then_some(usize::try_from(start).ok()?)
}

/// The routine that computes `node`; `None` if it would overwrite what it reads.
pub(super) fn build(context: Context<'_>, node: usize) -> Option<Routine> {
    let span = |number: usize| {
        let (mut lies, mut start) = (number, 0);
        while context.homes[lies].is_none() {
            start += start_within(context.program, lies).expect("what a routine reads lies in memory");
            lies = context.program.nodes[lies].inputs[0];
        }
        let home = context.homes[lies].as_ref().expect("it was found");
        Span { buffer: home.buffer, offset: home.offset + start, elements: context.program.nodes[number].shape.numel() }
    };
    let output = span(node);
    let node = &context.program.nodes[node];
    let kind = match node.op {
        Op::Kernel(ref kernel) => RoutineKind::Custom(Arc::clone(kernel)),
        Op::Attention(ref attention) => RoutineKind::Attention(attention.clone()),
        Op::Sort(Runs { length, run }) => RoutineKind::Sort(Runs { length, run: run.min(length) }),
        Op::Merge(runs) => RoutineKind::Merge(runs),
        Op::Search(search) => RoutineKind::Search(search),
        Op::Segments(segments) => RoutineKind::Segments(segments, node.dtype),
        ref op => match Scan::of(op, node.dtype, &node.shape) {
            Some(scan) => RoutineKind::Scan(scan),
            None => unreachable!("{op:?} is no routine"),
        },
    };
    let inputs: Vec<Span> = node.inputs.iter().map(|&input| span(input)).collect();
    inputs.iter().all(|input| input.buffer != output.buffer).then_some(Routine { kind, inputs, output })
}

impl Routine {
    /// Computes the output's elements from those of the inputs.
    pub fn evaluate(&self, inputs: &[&[f64]], output: &mut [f64]) {
        let whole = match self.kind {
            RoutineKind::Custom(ref kernel) => return kernel.evaluate(inputs, output),
            RoutineKind::Attention(ref of) => attention::reference(of, inputs),
            RoutineKind::Sort(runs) => sort::sorted(runs, inputs),
            RoutineKind::Merge(runs) => sort::merged(runs, inputs),
            RoutineKind::Search(search) => sort::found(search, inputs),
            RoutineKind::Segments(segments, dtype) => sort::segments(segments, dtype, inputs),
            RoutineKind::Scan(ref of) => scan::reference(of, inputs),
        };
        output.copy_from_slice(&whole);
    }

    /// The elements that it writes, in pieces of a kind.
    pub(crate) fn written(&self) -> Vec<Range<usize>> {
        let here = |part: Range<usize>| self.output.offset + part.start..self.output.offset + part.end;
        match &self.kind {
            RoutineKind::Custom(kernel) => kernel.parts().into_iter().map(here).collect(),
            _ => vec![self.output.range()],
        }
    }

    /// Comparisons, sums or products, about.
    pub(super) fn operations(&self) -> u64 {
        let (elements, first) = (self.output.elements as u64, self.inputs[0].elements as u64);
        match self.kind {
            RoutineKind::Attention(ref attention) => attention.flops(),
            RoutineKind::Sort(Runs { run, .. }) => first * u64::from(run.max(2).ilog2()),
            RoutineKind::Merge(_) => elements / 2,
            RoutineKind::Search(Search { length, .. }) => elements * u64::from(length.max(2).ilog2()),
            RoutineKind::Segments(..) | RoutineKind::Scan(_) => first,
            RoutineKind::Custom(ref kernel) => kernel.flops(),
        }
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none\n        {:?} of", self.kind)?;
        for span in &self.inputs {
            write!(f, " b{}[{:?}]", span.buffer, span.range())?;
        }
        write!(f, " to b{}[{:?}]", self.output.buffer, self.output.range())
    }
}
