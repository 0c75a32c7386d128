// Row work where rows lie side by side: a workgroup takes a block of neighbouring rows, in fours, and as many threads
// sweep over each. Neighbouring threads read neighbouring fours, so that lines of memory are read whole. The shares of
// a row meet in a tree of fixed shape, so that the same row always gives the same bits.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4f>;
//@end

//@slot grid
const FOURS: u32 = 2u;

fn work_count() -> u32 {
    return 3u;
}

fn groups_x() -> u32 {
    return 2u;
}
//@end

//@slot scratch
const SHARES: u32 = 2u;

var<workgroup> scratch: array<vec4f, 4>;
//@end

// All phases of the four rows number `work`, of which this thread has every SHARES-th point from `share` on.
//@slot compute
fn compute(work: u32, share: u32, thread: u32) {
    var sum = vec4f();
    for (var q = share; q < 8u; q += SHARES) {
        sum += input[q * 3u + work];
    }
    scratch[thread] = sum;
    workgroupBarrier();
    if (thread < 2u) {
        scratch[thread] = scratch[thread] + scratch[thread + 2u];
    }
    workgroupBarrier();
    if (share == 0u) {
        output[work] = scratch[thread % 2u];
    }
}
//@end

// The share of threads beside the last row, which is behind the end of every sweep: they take part in barriers and in
// nothing else.
const NONE: u32 = 0xffffffffu;

@compute @workgroup_size(FOURS * SHARES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let first = (group.y * groups_x() + group.x) * FOURS;
    // depends on the group only, so barriers stay uniform
    if (first < work_count()) {
        let work = first + thread % FOURS;
        compute(work, select(NONE, thread / FOURS, work < work_count()), thread);
    }
}
