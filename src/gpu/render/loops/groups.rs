//! Rows that workgroups share: one row each, or a block of rows that lie side by side.

use std::collections::BTreeSet;

use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::tree::{self, Tree, Value};
use crate::gpu::render::{BUSY_GROUPS, Capabilities, Launch, grid_of_groups};
use crate::plan::Phase;

use super::{MAX_ITERATIONS, Shape, Wide};

/// Threads of a workgroup that has enough to do, where the adapter allows as many.
const THREADS: usize = 256;
/// Threads below which a block is not worth its barriers.
const FEWEST_THREADS: usize = 64;
/// Bytes of workgroup memory for each thread's part of a reduction in a block, four values.
const PART_BYTES: usize = 16;
/// How many fours of rows a block may have, and how many blocks must be left then. Four of them are lines of 64 bytes
/// of f32, two the 32 bytes that memory is read in at the least; with fewer blocks than that, threads are what a GPU
/// lacks.
const BLOCKS: [(usize, usize); 5] =
    [(16, BUSY_GROUPS), (8, BUSY_GROUPS), (4, BUSY_GROUPS / 4), (2, BUSY_GROUPS / 4), (1, 0)];

/// Rows that lie side by side, in fours, and how many threads have a share of each. Shapes decide, and limits of the
/// adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    fours: usize,
    shares: usize,
}

/// The workgroup that shares a row or a block.
#[derive(Clone, Copy)]
pub(super) struct Group {
    threads: usize,
    block: Option<Block>,
    /// The lanes of shuffles.
    lanes: Option<usize>,
}

impl Group {
    /// How many threads share a row, if they are the whole workgroup.
    pub(super) fn of_row(self) -> Option<usize> {
        self.block.is_none().then_some(self.threads)
    }

    /// The names of a thread's number among those that share its row, and of how many these are.
    pub(super) fn share(self) -> (&'static str, &'static str) {
        if self.block.is_some() { ("share", "SHARES") } else { ("thread", "THREADS") }
    }
}

impl Shape<'_> {
    /// The largest block that leaves enough of them; `None` where rows are too long, or reductions too many, for any.
    pub(super) fn block(&self, caps: &Capabilities) -> Option<Block> {
        let parts_bytes = PART_BYTES * self.scratch().len().max(1);
        let most = THREADS.min(caps.max_workgroup_invocations as usize);
        let most = most.min(caps.max_workgroup_bytes as usize / parts_bytes);
        if most < FEWEST_THREADS {
            return None;
        }
        let (all, longest) = (self.whole.div_ceil(4), 1 << self.inner.ilog2());
        // of short rows some threads have nothing: Metal leaves out the barriers of smaller workgroups
        let enough = |fours: usize| longest.max(FEWEST_THREADS / fours);
        let block = |fours| Block { fours, shares: ((1 << most.ilog2()) / fours).min(enough(fours)) };
        let fits = |block: Block| self.inner.div_ceil(block.shares) * self.sweeps() <= MAX_ITERATIONS;
        let possible = BLOCKS.into_iter().filter(|(fours, blocks)| all >= fours * blocks);
        possible.map(|(fours, _)| block(fours)).find(|&block| fits(block))
    }

    /// One workgroup for each outer point.
    pub(super) fn grouped(&self, mut module: Module<'_>) -> Result<Launch> {
        let steps = if self.wide == Wide::Inner { self.inner / 4 } else { self.inner };
        let wanted = if steps >= 512 { THREADS } else { 64 };
        let threads = wanted.min(module.caps.max_workgroup_invocations as usize).max(1);
        let threads = 1 << threads.ilog2();
        let lanes = tree::lanes(module.caps, threads);
        let (code, _) = self.phases(&mut module, Group { threads, block: None, lanes })?;
        let constants = lanes.map_or(String::new(), |lanes| format!("const LANES: u32 = {lanes}u;\n\n"));
        let scratch = constants + &self.scratch_text(1, threads);
        let (grid, groups) = grid_of_groups(&mut module, self.outer, 1)?;
        let grid = format!("const THREADS: u32 = {threads}u;\n\n{grid}");
        let (family, lane) =
            if lanes.is_some() { ("reduce_subgroups.wgsl", ", lane: u32") } else { ("reduce_group.wgsl", "") };
        let compute = format!("fn compute(work: u32, thread: u32{lane}) {{\n{code}}}\n");
        let slots = [("grid", grid.as_str()), ("scratch", scratch.as_str()), ("compute", compute.as_str())];
        module.finish(family, &slots, groups)
    }

    /// One workgroup for each block of outer points.
    pub(super) fn blocked(&self, mut module: Module<'_>, block: Block) -> Result<Launch> {
        let Block { fours, shares } = block;
        let threads = fours * shares;
        let (code, work) = self.phases(&mut module, Group { threads, block: Some(block), lanes: None })?;
        let scratch = format!("const SHARES: u32 = {shares}u;\n\n{}", self.scratch_text(4, threads));
        let (grid, groups) = grid_of_groups(&mut module, work, fours)?;
        let grid = format!("const FOURS: u32 = {fours}u;\n\n{grid}");
        let compute = format!("fn compute(work: u32, share: u32, thread: u32) {{\n{code}}}\n");
        let slots = [("grid", grid.as_str()), ("scratch", scratch.as_str()), ("compute", compute.as_str())];
        module.finish("reduce_block.wgsl", &slots, groups)
    }

    /// All phases, and how many values `work` takes.
    fn phases(&self, module: &mut Module<'_>, group: Group) -> Result<(String, usize)> {
        let mut space = self.space(self.wide).expect("the choice checked it");
        let mut code = String::new();
        let work = self.outer_coordinates(module, &mut space, &mut code);
        for phase in &self.kernel.phases {
            self.phase(module, &mut space, phase, Some(group), &mut code)?;
        }
        Ok((code, work))
    }

    /// (position in its phase, register type) of every reduction.
    fn scratch(&self) -> BTreeSet<(usize, &'static str)> {
        let of_phase = |phase: &Phase| {
            let values = phase.reductions.iter().enumerate();
            let register = |value: usize| Register::of(phase.tape.instrs[value].dtype).name();
            values.map(|(number, &(_, value))| (number, register(value))).collect::<Vec<_>>()
        };
        self.kernel.phases.iter().flat_map(of_phase).collect()
    }

    /// The workgroup's memory: of each thread's parts of reductions, of `width` rows.
    fn scratch_text(&self, width: usize, threads: usize) -> String {
        // bools as numbers
        let element = |name: &str| if name == "bool" { "u32".to_owned() } else { name.to_owned() };
        let ty = |name: &str| if width == 1 { element(name) } else { format!("vec{width}<{}>", element(name)) };
        let line = |(number, name): (usize, &str)| {
            format!("var<workgroup> scratch_{name}_{number}: array<{}, {threads}>;\n", ty(name))
        };
        self.scratch().into_iter().map(line).collect()
    }

    /// The tree over the threads' partial results.
    pub(super) fn tree(
        &self,
        module: &Module<'_>,
        phase: &Phase,
        first_reduction: usize,
        Group { threads, block, lanes }: Group,
        code: &mut String,
    ) -> Result<()> {
        let reductions = &phase.reductions;
        let dtype = |number: usize| phase.tape.instrs[reductions[number].1].dtype;
        let value = |number: usize| Value {
            parts: scratch_name(number, dtype(number)),
            whole: format!("r{}", first_reduction + number),
            bools: (dtype(number) == DType::Bool).then_some(if block.is_some() { 4 } else { 1 }),
        };
        let values: Vec<Value> = (0..reductions.len()).map(value).collect();
        let all: usize = self.kernel.phases.iter().map(|phase| phase.reductions.len()).sum();
        let again = first_reduction + reductions.len() < all;
        let (abreast, width) = block.map_or((1, 1), |block| (block.fours, 4));
        let join =
            |number: usize, a: &str, b: &str| self.combined(module, reductions[number].0, dtype(number), width, a, b);
        code.push_str(&Tree { threads, abreast, lanes, again }.text(&values, join)?);
        Ok(())
    }
}

/// The array of the threads' parts of reduction `number` of a phase.
pub(super) fn scratch_name(number: usize, dtype: DType) -> String {
    format!("scratch_{}_{number}", Register::of(dtype).name())
}
