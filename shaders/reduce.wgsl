// Row work with one invocation per outer point (or per four of them): each sweep over the row is a serial loop.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
const THREADS: u32 = 64u;

fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}
//@end

// All phases of the row (or the four rows) number `work`.
//@slot compute
fn compute(work: u32) {
    var sum = 0.0;
    for (var q = 0u; q < 8u; q++) {
        sum += input[work * 8u + q];
    }
    output[work] = sum;
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        compute(work);
    }
}
