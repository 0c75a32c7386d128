// As reduce_group.wgsl, but the last levels of the tree are shuffles within subgroups. Which thread is which lane is
// unknown, so lanes take from workgroup memory what they join. Lanes of number `lane` modulo LANES join the same, in
// every subgroup, so that all threads have the result, which is that of lane 0.

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

const THREADS: u32 = 16u;
//@end

//@slot scratch
const LANES: u32 = 4u;

var<workgroup> scratch: array<f32, 16>;
//@end

// All phases of row `work`. The condition around the call depends on the group only, so barriers and shuffles stay
// uniform.
//@slot compute
fn compute(work: u32, thread: u32, lane: u32) {
    var sum = 0.0;
    for (var q = thread; q < 32u; q += THREADS) {
        sum += input[work * 32u + q];
    }
    scratch[thread] = sum;
    workgroupBarrier();
    if (thread < 8u) {
        scratch[thread] = scratch[thread] + scratch[thread + 8u];
    }
    workgroupBarrier();
    var part = scratch[lane] + scratch[lane + 4u];
    part = part + subgroupShuffleXor(part, 2u);
    part = part + subgroupShuffleXor(part, 1u);
    let whole = subgroupShuffle(part, 0u);
    if (thread == 0u) {
        output[work] = whole;
    }
}
//@end

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let work = group.y * groups_x() + group.x;
    if (work < work_count()) {
        compute(work, thread, lane % LANES);
    }
}
