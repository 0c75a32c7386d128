//! Elementwise work and reductions: which variant, and how many points at once.

mod groups;
mod kept;
mod text;
mod transpose;

use crate::error::Result;
use crate::plan::{InstrOp, Ix, Level, LoopKernel, Phase};

use super::module::Module;
use super::space::{Expr, Lanes, Space};
use super::{Capabilities, Launch};
use groups::Block;

/// Longest row that one invocation sweeps on a real GPU.
const SERIAL_ROW: usize = 64;
/// Where rows are fewer than this, the longest that one invocation sweeps: its threads wait for their loads step after
/// step, 16 µs for 64 rows of 64 on an H200, whose launches take 5.
const FEW_ROWS: usize = 4096;
const SHORT_ROW: usize = 16;
/// Rows from which on a CPU-type adapter is busy with one invocation for each.
const ENOUGH_ROWS: usize = 64;
/// Loop iterations that one invocation may take in all: llvmpipe silently stops at 65,535.
const MAX_ITERATIONS: usize = 32_768;

/// What runs four at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wide {
    /// Nothing.
    None,
    /// The last outer axis.
    Outer,
    /// Four outer points in a row, across axes.
    Points,
    /// The last inner axis.
    Inner,
}

/// Who sweeps over a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// One invocation.
    Alone,
    /// A workgroup.
    Group,
    /// A workgroup, over several rows that lie side by side.
    Block(Block),
}

struct Shape<'k> {
    kernel: &'k LoopKernel,
    /// Outer points of the kernel of which this one may be a piece.
    whole: usize,
    outer: usize,
    inner: usize,
    wide: Wide,
    /// For a map that transposes, the axis along which neighbours are read; its points are taken in blocks.
    read_along: Option<usize>,
}

/// The launch for a loop kernel none of whose sizes leaves it without work; `None` if there is none. It is a piece of a
/// kernel of `whole` outer points.
pub(crate) fn render(mut module: Module<'_>, kernel: &LoopKernel, whole: usize) -> Result<Option<Launch>> {
    let mut shape = Shape::new(kernel, whole);
    if shape.outer == 0 {
        return Ok(None);
    }
    if shape.sweeps() == 0 {
        if let Some(axis) = transpose::read_axis(kernel)
            && let Some(turned) = shape.turned_loads(axis, module.caps)
        {
            return shape.transposed(module, axis, turned).map(Some);
        }
        shape.wide = shape.wide_map();
        shape.read_along = if shape.wide == Wide::Outer { transpose::read_axis(kernel) } else { None };
        if kernel.outer <= 1 {
            module.share_between_sizes();
        }
        return shape.serial(module, "map.wgsl").map(Some);
    }
    let (form, wide) = shape.variant(module.caps);
    shape.wide = wide;
    match form {
        Form::Alone => shape.serial(module, "reduce.wgsl"),
        Form::Group => shape.grouped(module),
        Form::Block(block) => shape.blocked(module, block),
    }
    .map(Some)
}

/// Whether a part of a loop kernel takes its sums in the order in which the whole does.
pub(super) fn same_order(part: &LoopKernel, whole: &LoopKernel, caps: &Capabilities) -> bool {
    let points = whole.axes[..whole.outer].iter().product();
    let order = |kernel| {
        let (form, wide) = Shape::new(kernel, points).variant(caps);
        (form, wide == Wide::Inner)
    };
    Shape::new(whole, points).sweeps() == 0 || order(part) == order(whole)
}

impl<'k> Shape<'k> {
    fn new(kernel: &'k LoopKernel, whole: usize) -> Self {
        let (outer, inner) = kernel.axes.split_at(kernel.outer);
        Self {
            kernel,
            whole,
            outer: outer.iter().product(),
            inner: inner.iter().product(),
            wide: Wide::None,
            read_along: None,
        }
    }

    /// The phases that go over the inner points.
    fn inner_phases(&self) -> impl Iterator<Item = &'k Phase> {
        self.kernel.phases.iter().filter(|phase| phase.level == Level::Inner)
    }

    /// How often the inner points are gone over.
    fn sweeps(&self) -> usize {
        self.inner_phases().count()
    }

    /// How a reduction runs: who sweeps over a row, and what runs four at a time.
    fn variant(&self, caps: &Capabilities) -> (Form, Wide) {
        let across = self.score(Wide::Outer, self.kernel.phases.iter());
        let along = self.score(Wide::Inner, self.inner_phases());
        let fits = self.inner * self.sweeps() <= MAX_ITERATIONS;
        let serial = if caps.software {
            self.whole >= ENOUGH_ROWS && fits
        } else {
            across > along && across > 0 && self.whole >= 16_384 && self.inner <= 4096 && fits
        };
        let few = !caps.software && self.whole < FEW_ROWS;
        let serial = serial || self.inner <= if few { SHORT_ROW } else { SERIAL_ROW };
        if serial && across > 0 && across >= along {
            return (Form::Alone, Wide::Outer);
        }
        // what is written once for each row says nothing of how rows lie
        let across = self.score(Wide::Outer, self.inner_phases());
        if !serial
            && !caps.software
            && across > along.max(0)
            && let Some(block) = self.block(caps)
        {
            return (Form::Block(block), Wide::Outer);
        }
        let form = if serial { Form::Alone } else { Form::Group };
        (form, if along > 0 { Wide::Inner } else { Wide::None })
    }

    fn outer_axes(&self) -> &[usize] {
        &self.kernel.axes[..self.kernel.outer]
    }

    fn inner_axes(&self) -> &[usize] {
        &self.kernel.axes[self.kernel.outer..]
    }

    /// The axis that [`Wide::Outer`] or [`Wide::Inner`] runs four at a time, if its size allows.
    fn wide_axis(&self, wide: Wide) -> Option<usize> {
        let (axes, last) = (&self.kernel.axes, self.kernel.outer.checked_sub(1));
        match wide {
            Wide::Outer => last.filter(|&last| axes[last].is_multiple_of(4) || last == 0),
            Wide::Inner => {
                (axes.len() > self.kernel.outer && axes[axes.len() - 1].is_multiple_of(4)).then(|| axes.len() - 1)
            }
            Wide::None | Wide::Points => None,
        }
    }

    /// The space of the sweeps (or of the points, for a map); `None` where the sizes do not allow it.
    fn space(&self, wide: Wide) -> Option<Space> {
        let mut axes = self.kernel.axes.clone();
        let mut of_kernel: Vec<Ix> = (0..axes.len()).map(Ix::axis).collect();
        let mut lane = None;
        if let Some(axis) = self.wide_axis(wide) {
            axes[axis] = axes[axis].div_ceil(4);
            of_kernel[axis] = Ix::axis(axis).times(4).plus(&Ix::axis(axes.len()));
            lane = Some(axes.len());
            axes.push(4);
        } else if matches!(wide, Wide::Outer | Wide::Inner) {
            return None;
        }
        let varies = |axis: usize| Some(axis) == lane || (wide == Wide::Points && axis < self.kernel.outer);
        let coordinates = (0..axes.len()).map(|axis| Expr { text: String::new(), varying: varies(axis) }).collect();
        let linear = (wide == Wide::Points).then(|| {
            let points: Vec<Ix> = (0..self.kernel.outer).map(Ix::axis).collect();
            (Ix::linear(&points, self.outer_axes()), "first".to_owned())
        });
        let width = if wide == Wide::None { 1 } else { 4 };
        Some(Space { axes, coordinates, of_kernel, lane, width, linear, active: None, hoist: None })
    }

    /// How much better the accesses of these phases get; above 0 where it pays.
    fn score(&self, wide: Wide, phases: impl Iterator<Item = &'k Phase>) -> i32 {
        let Some(space) = self.space(wide) else { return 0 };
        let value = |ix: &Ix| match space.lanes(&space.rewrite(ix)) {
            Lanes::Aligned(_) => 2,
            Lanes::Same => 0,
            Lanes::Apart => -1,
        };
        let of_phase = |phase: &Phase| {
            let loads = phase.tape.instrs.iter().map(|instr| match &instr.op {
                InstrOp::Load { index, .. } | InstrOp::Random { counter: index, .. } => value(index),
                InstrOp::Gather { .. } => -1,
                _ => 0,
            });
            loads.sum::<i32>() + phase.stores.iter().map(|store| value(&store.index)).sum::<i32>()
        };
        phases.map(of_phase).sum()
    }

    /// A map takes four points at a time where its stores are then whole vectors, or where it draws four random words
    /// at once.
    fn wide_map(&self) -> Wide {
        let phases = || self.kernel.phases.iter();
        let stores = || phases().flat_map(|phase| &phase.stores).map(|store| &store.index);
        let words = || {
            phases().flat_map(|phase| &phase.tape.instrs).filter_map(|instr| match &instr.op {
                InstrOp::Random { counter, .. } => Some(counter),
                _ => None,
            })
        };
        for wide in [Wide::Outer, Wide::Points] {
            if self.kernel.outer > 0
                && let Some(space) = self.space(wide)
            {
                let aligned = |ix: &Ix| matches!(space.lanes(&space.rewrite(ix)), Lanes::Aligned(_));
                if stores().all(aligned) || (words().next().is_some() && words().all(aligned)) {
                    return wide;
                }
            }
        }
        Wide::None
    }
}
