// Elementwise work on what lies along another axis than the results: a workgroup brings a tile of it into its memory,
// line by line, and takes it from there column by column.

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

const THREADS: u32 = 256u;
const SIDE: u32 = 32u;
//@end

// of lines in workgroup memory, so that the values of a column lie in different banks
const PITCH: u32 = SIDE + 1u;

//@slot tiles
var<workgroup> tile0: array<f32, SIDE * PITCH>;
//@end

// Tile number `work`. The condition around the call depends on the group only, so the barrier stays uniform.
//@slot compute
fn compute(work: u32, thread: u32) {
    let place = thread % SIDE;
    for (var row = thread / SIDE; row < SIDE; row += THREADS / SIDE) {
        tile0[row * PITCH + place] = input[row * SIDE + place];
    }
    workgroupBarrier();
    for (var row = thread / SIDE; row < SIDE; row += THREADS / SIDE) {
        output[row * SIDE + place] = tile0[place * PITCH + row];
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
