// Sum of products for real GPUs: 256 threads bring a 64x16 and a 16x64 piece of the operands into workgroup memory, and
// each adds up a 4x4 tile of the 64x64 results in registers.

//@slot bindings
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}

fn row_tiles() -> u32 {
    return 1u;
}

fn column_tiles() -> u32 {
    return 1u;
}

fn step_count() -> u32 {
    return 1u;
}
//@end

//@slot types
alias Sum = vec4f;
//@end

// [k][row / 4] and [k][column / 4]
var<workgroup> left_tile: array<Sum, 256>;
var<workgroup> right_tile: array<Sum, 256>;

// `fetch_left` and `fetch_right` write this thread's four elements of the pieces for step `step` into workgroup memory,
// zeros outside; `finish` handles four neighbouring results in one row.
//@slot compute
fn fetch_left(batch: u32, row: u32, step: u32, thread: u32) {
    let k = thread / 16u;
    let r = row + thread % 16u * 4u;
    left_tile[thread] = Sum(left[r * 16u + k], left[(r + 1u) * 16u + k], left[(r + 2u) * 16u + k], left[(r + 3u) * 16u + k]);
}

fn fetch_right(batch: u32, column: u32, step: u32, thread: u32) {
    let k = thread / 16u;
    let c = k * 64u + column + thread % 16u * 4u;
    right_tile[thread] = Sum(right[c], right[c + 1u], right[c + 2u], right[c + 3u]);
}

fn finish(batch: u32, row: u32, column: u32, sum: Sum) {
    for (var j = 0u; j < 4u; j++) {
        output[row * 64u + column + j] = sum[j];
    }
}
//@end

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = group.y * groups_x() + group.x;
    if (work >= work_count()) {
        return;
    }
    let tiles = work / column_tiles();
    let batch = tiles / row_tiles();
    let row = tiles % row_tiles() * 64u;
    let column = work % column_tiles() * 64u;
    let left_part = thread / 16u;
    let right_part = thread % 16u;
    var sum0 = Sum();
    var sum1 = Sum();
    var sum2 = Sum();
    var sum3 = Sum();
    for (var step = 0u; step < step_count(); step++) {
        fetch_left(batch, row, step, thread);
        fetch_right(batch, column, step, thread);
        workgroupBarrier();
        for (var k = 0u; k < 256u; k += 16u) {
            let a = left_tile[k + left_part];
            let b = right_tile[k + right_part];
            sum0 += a.x * b;
            sum1 += a.y * b;
            sum2 += a.z * b;
            sum3 += a.w * b;
        }
        workgroupBarrier();
    }
    let first = row + left_part * 4u;
    finish(batch, first, column + right_part * 4u, sum0);
    finish(batch, first + 1u, column + right_part * 4u, sum1);
    finish(batch, first + 2u, column + right_part * 4u, sum2);
    finish(batch, first + 3u, column + right_part * 4u, sum3);
}
