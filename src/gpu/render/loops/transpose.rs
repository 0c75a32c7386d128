//! Maps that transpose. Where there is work for a GPU, what lies along another axis than the results comes through
//! workgroup memory in tiles, so that reads and stores both fill lines of memory. Elsewhere points are taken in blocks,
//! so that neighbours in a workgroup read neighbours.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, unravel};
use crate::gpu::render::tape::Outside;
use crate::gpu::render::{Capabilities, Launch, grid_of_groups};
use crate::plan::{Atom, InstrOp, Ix, LoopKernel, Phase, Tape, ValueId};

use super::{Shape, Wide};

/// Points to each side of a block, 64 bytes of f32.
const BLOCK: usize = 16;
/// Its sides in fours.
const QUARTER: usize = BLOCK / 4;
/// Invocations for a block, each of which takes four points.
const INVOCATIONS: usize = BLOCK * QUARTER;
/// Points to each side of a tile in workgroup memory, 128 bytes of f32.
const SIDE: usize = 32;
/// Threads of a tile's workgroup, each of which takes four points.
const THREADS: usize = 256;
/// Points from which on a launch has enough workgroups of that size.
const MIN_POINTS: usize = 1 << 17;
/// Tiles that fit into the workgroup memory of all adapters.
const MAX_TILES: usize = 3;

/// The axis along which some load finds its neighbours, where stores find theirs along the last one.
pub(super) fn read_axis(kernel: &LoopKernel) -> Option<usize> {
    let axes = &kernel.axes[..kernel.outer];
    let last = axes.len().checked_sub(1)?;
    let loads = kernel.phases.iter().flat_map(|phase| &phase.tape.instrs).filter_map(|instr| match &instr.op {
        InstrOp::Load { index, .. } => Some(index),
        _ => None,
    });
    let along = |index: &Ix| (0..last).find(|&axis| is_along(index, axis, last));
    loads.filter_map(along).find(|&axis| axes[axis] >= BLOCK && axes[last] >= BLOCK)
}

/// Whether neighbours along `axis` are neighbours in memory, and those along the `last` one are not.
fn is_along(index: &Ix, axis: usize, last: usize) -> bool {
    let is_far = |(atom, stride): &(Atom, i64)| *atom == Atom::Axis(last) && stride.unsigned_abs() > 1;
    index.terms.contains(&(Atom::Axis(axis), 1)) && index.terms.iter().any(is_far)
}

/// Statements that find the coordinates of `work` in `sizes`, the last of which counts fours, and return where it lies
/// outside; with how many values `work` takes.
pub(super) fn block_coordinates(
    module: &mut Module<'_>,
    sizes: &[usize],
    axis: usize,
    code: &mut String,
) -> (Vec<Expr>, usize) {
    let last = sizes.len() - 1;
    let mut blocks = sizes.to_vec();
    blocks[axis] = sizes[axis].div_ceil(BLOCK);
    blocks[last] = sizes[last].div_ceil(QUARTER);
    let mut coordinates = unravel(module, &Expr::scalar(format!("(work / {INVOCATIONS}u)")), &blocks, "b", code);
    let (read, written) = (&coordinates[axis].text, &coordinates[last].text);
    let _ = writeln!(code, "    let read = {read} * {BLOCK}u + work % {BLOCK}u;");
    let _ = writeln!(code, "    let written = {written} * {QUARTER}u + work / {BLOCK}u % {QUARTER}u;");
    let (reads, writes) = (module.number(sizes[axis] as u64), module.number(sizes[last] as u64));
    let _ = writeln!(code, "    if (read >= {reads} || written >= {writes}) {{\n        return;\n    }}");
    coordinates[axis] = Expr::scalar("read");
    coordinates[last] = Expr::scalar("written");
    (coordinates, blocks.iter().product::<usize>() * INVOCATIONS)
}

impl<'k> Shape<'k> {
    /// The map's phase and its loads along `axis`, if they can come through workgroup memory: those of elements of four
    /// bytes, read without conditions.
    pub(super) fn turned_loads(&self, axis: usize, caps: &Capabilities) -> Option<(&'k Phase, Vec<ValueId>)> {
        let (kernel, last) = (self.kernel, self.kernel.outer - 1);
        let [phase] = kernel.phases.as_slice() else { return None };
        let instrs = &phase.tape.instrs;
        let loads = instrs.iter().enumerate().filter_map(|(id, instr)| match &instr.op {
            InstrOp::Load { index, valid, .. } if valid.is_empty() && is_along(index, axis, last) => Some(id),
            _ => None,
        });
        let loads: Vec<ValueId> = loads.collect();
        let has_words = |value: ValueId| instrs[value].dtype.size_bytes() == 4;
        let fits = (1..=MAX_TILES).contains(&loads.len())
            && loads.iter().chain(phase.stores.iter().map(|store| &store.value)).all(|&value| has_words(value))
            && kernel.axes[axis].min(kernel.axes[last]) >= SIDE
            && self.outer >= MIN_POINTS
            && caps.max_workgroup_invocations as usize >= THREADS
            && !caps.software;
        fits.then_some((phase, loads))
    }

    /// One workgroup for each tile of points along `axis` and the last one.
    pub(super) fn transposed(
        &self,
        mut module: Module<'_>,
        axis: usize,
        (phase, loads): (&'k Phase, Vec<ValueId>),
    ) -> Result<Launch> {
        let last = self.kernel.outer - 1;
        let mut blocks = self.kernel.axes[..=last].to_vec();
        for side in [axis, last] {
            blocks[side] = blocks[side].div_ceil(SIDE);
        }
        let mut code = String::new();
        let coordinates = unravel(&mut module, &Expr::scalar("work"), &blocks, "b", &mut code);
        let mut space = self.space(Wide::None).expect("single points are always possible");
        space.coordinates[..=last].clone_from_slice(&coordinates);
        let _ = writeln!(code, "    let first_read = {} * SIDE;", coordinates[axis].text);
        let _ = writeln!(code, "    let first_written = {} * SIDE;", coordinates[last].text);
        let counts = [axis, last].map(|side| module.number(self.kernel.axes[side] as u64));
        let inside = format!("read < {} && written < {}", counts[0], counts[1]);
        space.coordinates[axis] = Expr::scalar("read");
        space.coordinates[last] = Expr::scalar("written");
        // `place` is the thread's own place along what lies in a line
        let rows = |line: &str, other: &str, body: &str| {
            format!(
                "    for (var row = thread / SIDE; row < SIDE; row += THREADS / SIDE) {{
    let {line} = first_{line} + place;\n    let {other} = first_{other} + row;\n    if ({inside}) {{\n{body}    }}\n    }}\n"
            )
        };
        let (mut tiles, mut brought, mut known) = (String::new(), String::new(), Vec::new());
        for (number, &id) in loads.iter().enumerate() {
            let load = phase.tape.instrs[id].clone();
            let element = Register::of(load.dtype).name();
            let _ = writeln!(tiles, "var<workgroup> tile{number}: array<{element}, SIDE * PITCH>;");
            let mut body = String::new();
            module.tape(&mut space, &Tape { instrs: vec![load] }, Outside::default(), &mut body)?;
            let _ = write!(brought, "    {{\n{body}    tile{number}[row * PITCH + place] = v0;\n    }}\n");
            known.push((id, format!("tile{number}[place * PITCH + row]")));
        }
        code.push_str(&rows("read", "written", &brought));
        code.push_str("    workgroupBarrier();\n");
        let mut body = String::new();
        module.tape(&mut space, &phase.tape, Outside { known, ..Outside::default() }, &mut body)?;
        self.stores(&mut module, &mut space, phase, &mut body)?;
        code.push_str(&rows("written", "read", &body));
        let (grid, groups) = grid_of_groups(&mut module, blocks.iter().product(), 1)?;
        let grid = format!("const THREADS: u32 = {THREADS}u;\nconst SIDE: u32 = {SIDE}u;\n\n{grid}");
        let compute = format!("fn compute(work: u32, thread: u32) {{\n    let place = thread % SIDE;\n{code}}}\n");
        let slots = [("grid", grid.as_str()), ("tiles", tiles.as_str()), ("compute", compute.as_str())];
        module.finish("transpose.wgsl", &slots, groups)
    }
}
