//! What a planner has to know about the device it plans for. Each executor has its own.

use crate::matmul_precision::MatmulPrecision;

/// Limits and costs that decide how a program is cut into kernels.
///
/// With shapes and the program they fix which sums are cut, and how; within a kernel an adapter's limits and units, or the
/// length of a CPU's vectors, have a say in the order of a sum as well, measurements never.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlanOptions {
    /// Buffers one kernel may name.
    pub max_buffers: usize,
    /// Steps one invocation may take over the summed axes of a contraction; longer ones are split. Mesa's llvmpipe
    /// silently ends loops after 65,535 steps.
    pub max_contract_steps: usize,
    /// Elements that are sorted in one go, a power of two and at least 4; longer runs are merged from such.
    pub sort_run: usize,
    /// Elements one row of a reduction may have before it is cut in parts that are reduced again.
    pub max_row: usize,
    /// Elements of the parts that a row is cut into. Of a workgroup that keeps so many in its threads' registers, they
    /// are read once however often they are swept over.
    pub row_part: usize,
    /// Workgroups the device wants at the least; the sums of small reductions and contractions are cut until there are
    /// so many. 1: never cut for that.
    pub wanted_groups: usize,
    /// Rows, and as many columns, of a contraction's results that are worth a workgroup. It sums a quarter as many
    /// columns of a matrix.
    pub group_tile: usize,
    /// Results of a contraction with fewer rows or columns than half of that which are worth a workgroup.
    pub thin_results: usize,
    /// Whether several invocations share a sum of a contraction with few results, each of which takes so many steps at
    /// the most; 0: none do.
    pub shared_steps: usize,
    /// Rows longer than this are not fused with elementwise work on every element (they do not stay in cache).
    pub fused_row: usize,
    /// Cost (as the fusion pass counts it) up to which a value used several times is computed again instead of stored.
    pub recompute_cost: u32,
    /// Cost up to which an elementwise chain is computed as a contraction loads its operand.
    pub prologue_cost: u32,
    /// Elements of a matrix from which on its product with a vector is a reduction of products, with many threads to a
    /// row, instead of a contraction.
    pub reduced_matrix: usize,
    /// False: every node gets a kernel of its own (for comparison and for finding errors).
    pub fuse: bool,
    /// True: sizes are written into kernels as constants.
    pub literal_sizes: bool,
    /// True: a slot may have what a kernel only reads beside what it writes. WebGPU binds a buffer in one way at a
    /// time.
    pub mixed_slots: bool,
    /// Of contractions of f32.
    pub matmul_precision: MatmulPrecision,
}

impl PlanOptions {
    /// For the native backend: it cuts long sums itself, and rows of any length pass through its cache in strips.
    pub const CPU: Self = Self {
        max_buffers: 64,
        max_contract_steps: usize::MAX,
        sort_run: usize::MAX,
        max_row: usize::MAX,
        row_part: usize::MAX,
        wanted_groups: 1,
        group_tile: 64,
        thin_results: 64 * 64,
        shared_steps: 0,
        fused_row: 1 << 16,
        recompute_cost: 10,
        prologue_cost: 7,
        reduced_matrix: usize::MAX,
        fuse: true,
        literal_sizes: true,
        mixed_slots: true,
        matmul_precision: MatmulPrecision::Highest,
    };

    /// For a GPU that lets a kernel bind `max_buffers` storage buffers. How many cores it has, wgpu does not tell; 128
    /// is what the larger ones have, and costs the others little: the partial results of 128 workgroups are 2 MiB.
    pub const fn gpu(max_buffers: usize) -> Self {
        Self {
            max_buffers,
            max_contract_steps: 16_384,
            sort_run: 1024,
            max_row: 1 << 17,
            // eight fours of each of 256 threads; 16 Mi values are 2048 parts, and summed as fast as in 512 on an H200
            row_part: 1 << 13,
            wanted_groups: 128,
            group_tile: 64,
            // workgroups for thin ones are smaller, and more of them hide better what they wait for: a ResNet-20's step
            // of 128 pictures takes an H100 4.31 ms so and 4.52 with a quarter
            thin_results: 64 * 64,
            // an H200 takes some 50 ns for each; a launch more, for parts that are cut, takes 2 to 3 µs
            shared_steps: 64,
            fused_row: 1 << 14,
            recompute_cost: 10,
            prologue_cost: 7,
            // smaller ones lie in caches, where contractions are as good and join more with their neighbours
            reduced_matrix: 1 << 16,
            fuse: true,
            literal_sizes: true,
            mixed_slots: false,
            matmul_precision: MatmulPrecision::Highest,
        }
    }

    /// For a processor that stands in for a GPU: it has few threads, each of which reads a row as well as many do.
    pub const fn software(max_buffers: usize) -> Self {
        Self {
            wanted_groups: 64,
            group_tile: 8,
            thin_results: 16,
            row_part: 1 << 15,
            shared_steps: 0,
            reduced_matrix: usize::MAX,
            ..Self::gpu(max_buffers)
        }
    }
}
