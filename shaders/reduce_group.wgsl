// Row work with one workgroup per outer point: every thread sweeps over a fixed share of the row, then the partial
// results meet in a tree of fixed shape, so that the same row always gives the same bits.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}

const THREADS: u32 = 4u;
//@end

//@slot scratch
var<workgroup> scratch: array<f32, 4>;
//@end

// All phases of row `work`. The condition around the call depends on the group only, so barriers stay uniform.
//@slot compute
fn compute(work: u32, thread: u32) {
    var sum = 0.0;
    for (var q = thread; q < 8u; q += THREADS) {
        sum += input[work * 8u + q];
    }
    scratch[thread] = sum;
    workgroupBarrier();
    if (thread < 2u) {
        scratch[thread] = scratch[thread] + scratch[thread + 2u];
    }
    workgroupBarrier();
    if (thread == 0u) {
        output[work] = scratch[0] + scratch[1];
    }
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = group.y * groups_x() + group.x;
    if (work < work_count()) {
        compute(work, thread);
    }
}
