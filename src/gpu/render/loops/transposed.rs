//! Maps that transpose, where there is work for a GPU: what lies along another axis than the results comes through
//! workgroup memory, so that reads and stores both fill lines of memory.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, unravel};
use crate::gpu::render::tape::Outside;
use crate::gpu::render::transpose::is_along;
use crate::gpu::render::{Capabilities, Launch, grid};
use crate::plan::{InstrOp, Phase, Tape, ValueId};

use super::{Shape, Wide};

/// Points to each side of a tile, 128 bytes of f32.
const SIDE: usize = 32;
/// Threads of a workgroup, each of which takes four points of a tile.
const THREADS: usize = 256;
/// Points from which on a launch has enough workgroups of that size.
const LEAST_POINTS: usize = 1 << 17;
/// Tiles that fit into the workgroup memory of all adapters.
const MOST_TILES: usize = 3;

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
        let fits = (1..=MOST_TILES).contains(&loads.len())
            && loads.iter().chain(phase.stores.iter().map(|store| &store.value)).all(|&value| has_words(value))
            && kernel.axes[axis].min(kernel.axes[last]) >= SIDE
            && self.outer >= LEAST_POINTS
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
        let (grid, groups) = grid(&mut module, blocks.iter().product(), 1)?;
        let grid = grid.replace("const THREADS: u32 = 1u;", &format!("const THREADS: u32 = {THREADS}u;"));
        let compute = format!("fn compute(work: u32, thread: u32) {{\n    let place = thread % SIDE;\n{code}}}\n");
        let slots = [("grid", grid.as_str()), ("tiles", tiles.as_str()), ("compute", compute.as_str())];
        module.finish("transpose.wgsl", &slots, groups)
    }
}
