//! Elementwise work and reductions: which variant, how many points at once, and their text.

mod groups;
mod kept;
mod transpose;

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ReduceOp;
use crate::plan::{InstrOp, Ix, Level, LoopKernel, Phase};

use super::module::Module;
use super::scalar;
use super::space::{Expr, Lanes, Space, unravel};
use super::tape::Outside;
use super::tree::number_of_bool;
use super::{Capabilities, Launch, grid};
use groups::{Block, Group};
use kept::Kept;

/// Longest row that one invocation sweeps on a real GPU.
const SERIAL_ROW: usize = 64;
/// Where rows are fewer than this, the longest that one invocation sweeps: its threads wait for their loads step after
/// step, 16 µs for 64 rows of 64 on an H200, whose launches take 5.
const FEW_ROWS: usize = 4096;
const SHORT_ROW: usize = 16;
/// Points or fours of points from which on workgroups of a map have more invocations than 64, and how many: an H200
/// adds 1 to 16 Mi values in 35.6 µs so, and in 45.5 with 64.
const MANY_POINTS: usize = 1 << 18;
const MAP_THREADS: usize = 256;
/// Rows from which on a CPU-type adapter is busy with one invocation for each.
const ENOUGH_ROWS: usize = 64;
/// Loop iterations that one invocation may take in all: llvmpipe silently stops at 65,535.
const MOST_ITERATIONS: usize = 32_768;

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
        let fits = self.inner * self.sweeps() <= MOST_ITERATIONS;
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

    /// One invocation for each outer point or four.
    fn serial(&self, mut module: Module<'_>, family: &str) -> Result<Launch> {
        let mut space = self.space(self.wide).expect("the choice checked it");
        let mut code = String::new();
        let work = self.outer_coordinates(&mut module, &mut space, &mut code);
        for phase in &self.kernel.phases {
            self.phase(&mut module, &mut space, phase, None, &mut code)?;
        }
        let threads = match family {
            "map.wgsl" if !module.caps.software && work >= MANY_POINTS => {
                MAP_THREADS.min(module.caps.max_workgroup_invocations as usize)
            }
            "reduce.wgsl" if module.caps.software && work <= 1024 => 8,
            _ => 64,
        };
        let (grid, groups) = grid(&mut module, work, threads)?;
        let compute = format!("fn compute(work: u32) {{\n{code}}}\n");
        module.finish(family, &[("grid", &grid), ("compute", &compute)], groups)
    }

    /// Statements that find the outer coordinates of `work`; returns how many values `work` takes.
    fn outer_coordinates(&self, module: &mut Module<'_>, space: &mut Space, code: &mut String) -> usize {
        let outer = self.kernel.outer;
        let lanes = "vec4u(0u, 1u, 2u, 3u)";
        let mut position = Expr::scalar("work");
        let mut work = self.outer;
        if let Some(lane) = space.lane {
            space.coordinates[lane] = Expr::varying("lanes");
        }
        if self.wide == Wide::Outer || self.wide == Wide::Points {
            let ragged = !self.outer.is_multiple_of(4);
            work = self.outer.div_ceil(4);
            if self.wide == Wide::Points {
                code.push_str("    let first = work * 4u;\n");
            }
            if ragged {
                // Lanes behind the last point repeat it: their reads stay in bounds and their writes are left out.
                let count = module.number(self.outer as u64);
                let _ = writeln!(code, "    let left = {count} - work * 4u;");
                let _ = writeln!(code, "    let inside = {lanes} < vec4u(left);");
                let _ = writeln!(code, "    let lanes = min({lanes}, vec4u(left - 1u));");
                space.active = Some("inside".into());
            } else {
                let _ = writeln!(code, "    let lanes = {lanes};");
            }
            if self.wide == Wide::Points {
                position = Expr::varying("(vec4u(first) + lanes)");
            }
        } else if self.wide == Wide::Inner {
            let _ = writeln!(code, "    let lanes = {lanes};");
        }
        let sizes = space.axes[..outer].to_vec();
        let coordinates = match self.read_along {
            Some(axis) => {
                let (coordinates, invocations) = transpose::block_coordinates(module, &sizes, axis, code);
                work = invocations;
                coordinates
            }
            None => unravel(module, &position, &sizes, "o", code),
        };
        space.coordinates[..outer].clone_from_slice(&coordinates);
        work
    }

    /// Statements of one phase; `group` shares the row, or several.
    fn phase(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        phase: &'k Phase,
        group: Option<Group>,
        code: &mut String,
    ) -> Result<()> {
        let mut space = space.clone();
        let first_reduction: usize = self
            .kernel
            .phases
            .iter()
            .take_while(|other| !std::ptr::eq(*other, phase))
            .map(|p| p.reductions.len())
            .sum();
        if phase.level == Level::Outer {
            if self.wide == Wide::Inner {
                (space.width, space.lane) = (1, None);
            }
            let mut body = String::new();
            module.tape(&mut space, &phase.tape, Outside::default(), &mut body)?;
            self.stores(module, &mut space, phase, &mut body)?;
            let head = group.map_or(String::new(), |group| format!("if ({} == 0u) ", group.share().0));
            let _ = write!(code, "    {head}{{\n{body}    }}\n");
            return Ok(());
        }
        let width = space.width;
        let dtype_of = |value: usize| phase.tape.instrs[value].dtype;
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let start = module.constant(op.identity(dtype_of(value)), width);
            let _ = writeln!(code, "    var a{} = {start};", first_reduction + number);
        }
        if self.inner > 0 {
            self.sweep(module, &mut space, phase, first_reduction, group, code)?;
        }
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let dtype = dtype_of(value);
            let name = first_reduction + number;
            let mut total = format!("a{name}");
            if self.wide == Wide::Inner {
                let pair = |a: &str, b: &str| {
                    self.combined(module, op, dtype, 1, &format!("{total}.{a}"), &format!("{total}.{b}"))
                };
                let (low, high) = (pair("x", "y")?, pair("z", "w")?);
                total = self.combined(module, op, dtype, 1, &low, &high)?;
            }
            let target = if group.is_some() {
                format!("{}[thread]", groups::scratch_name(number, dtype))
            } else {
                format!("let r{name}")
            };
            if group.is_some() && dtype == DType::Bool {
                total = number_of_bool(&total, if self.wide == Wide::Inner { 1 } else { width });
            }
            let _ = writeln!(code, "    {target} = {total};");
        }
        if let Some(group) = group
            && !phase.reductions.is_empty()
        {
            self.tree(module, phase, first_reduction, group, code)?;
        }
        Ok(())
    }

    /// The loop over the row (or this thread's share of it).
    fn sweep(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        phase: &'k Phase,
        first_reduction: usize,
        group: Option<Group>,
        code: &mut String,
    ) -> Result<()> {
        let outer = self.kernel.outer;
        let rank = self.inner_axes().len();
        let sizes = space.axes[outer..outer + rank].to_vec();
        let steps: usize = sizes.iter().product();
        let threads = group.and_then(Group::of_row);
        let for_all = !module.is_literal();
        let kept = threads.and_then(|threads| Kept::of(self, steps, threads, for_all));
        let mut body = String::new();
        let coordinates = unravel(module, &Expr::scalar("q"), &sizes, "q", &mut body);
        space.coordinates[outer..outer + rank].clone_from_slice(&coordinates);
        let known = kept.as_ref().map_or_else(Vec::new, |kept| kept.known(phase));
        let outside = Outside { narrow_reduced: self.wide == Wide::Inner, known };
        module.tape(space, &phase.tape, outside, &mut body)?;
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let dtype = phase.tape.instrs[value].dtype;
            let total = format!("a{}", first_reduction + number);
            let sum = self.combined(module, op, dtype, space.width, &total, &format!("v{value}"))?;
            let _ = writeln!(body, "    {total} = {sum};");
        }
        self.stores(module, space, phase, &mut body)?;
        let count = module.number(steps as u64);
        let (Some(kept), Some(threads)) = (kept, threads) else {
            let (start, step) = group.map_or(("0u", "1u"), Group::share);
            let _ = write!(code, "    for (var q = {start}; q < {count}; q += {step}) {{\n{body}    }}\n");
            return Ok(());
        };
        let [declared, keeping] = kept.read(phase, space.width);
        code.push_str(&declared);
        for step in 0..kept.steps {
            // in the last one some threads may have nothing left
            let all = !for_all && (step + 1) * threads <= steps;
            let head = if all { String::new() } else { format!("if (thread + {}u < {count}) ", step * threads) };
            let body = format!("{body}{keeping}").replace("_STEP", &format!("_{step}"));
            let _ = write!(code, "    {head}{{\n    let q = thread + {}u;\n{body}    }}\n", step * threads);
        }
        Ok(())
    }

    fn combined(
        &self,
        module: &Module<'_>,
        op: ReduceOp,
        dtype: DType,
        width: usize,
        a: &str,
        b: &str,
    ) -> Result<String> {
        scalar::binary(op.join(), dtype, width, a, b)
            .ok_or_else(|| module.error(format!("{op:?} does not exist for {dtype}")))
    }

    fn stores(&self, module: &mut Module<'_>, space: &mut Space, phase: &Phase, code: &mut String) -> Result<()> {
        for store in &phase.stores {
            let last = store.index.range(&self.kernel.axes).1;
            let slot = module.storage(store.buffer)?;
            // with a place for each inner point, only one of them is the last
            let reaches_end = phase.level == Level::Outer && last + 1 == module.storages[slot].elements as i64;
            module.store(space, store, reaches_end, code)?;
        }
        Ok(())
    }
}
