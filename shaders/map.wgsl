// Elementwise work: one invocation per point, or per four consecutive points.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> output: array<vec4f>;
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

// `work` counts invocations, 0..work_count().
//@slot compute
fn compute(work: u32) {
    output[work] = input[work];
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        compute(work);
    }
}
