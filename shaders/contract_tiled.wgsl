// Sum of products for real GPUs: the threads bring 16 summed points of the operands into workgroup memory, and each
// adds up blocks of 4x4 results in registers. A workgroup has one such block of each thread, 64x64 results of 256
// threads or less of fewer, or two in one or both directions: every value that is read from workgroup memory is then
// used twice as often. While a piece is multiplied, the next one is on its way from memory to registers.

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
const ROWS: u32 = 64u;
const COLUMNS: u32 = 64u;
const THREADS: u32 = 256u;
// blocks beside each other
const RIGHT_PARTS: u32 = 16u;
// summed points that are written out
const UNROLLED: u32 = 1u;
//@end

// [block][k][row / 4] and [block][k][column / 4], in the order of `at_left` and `at_right`
var<workgroup> left_tile: array<Sum, ROWS * 4u>;
var<workgroup> right_tile: array<Sum, COLUMNS * 4u>;

// `load_left` and `load_right` give the elements of four number `number` of step `step` of a block's rows or columns,
// which are those from `first` on, zeros behind the last step; `place_left` and `place_right` put them where they
// belong, from `start` on, which is where `at_left` and `at_right` say for summed point k of a step and part `part` of
// a block; `finish` handles four neighbouring results in one row.
//@slot compute
fn load_left(batch: u32, first: u32, step: u32, number: u32) -> Sum {
    let k = number / 16u;
    let r = first + number % 16u * 4u;
    return Sum(left[r * 16u + k], left[(r + 1u) * 16u + k], left[(r + 2u) * 16u + k], left[(r + 3u) * 16u + k]);
}

fn place_left(start: u32, number: u32, value: Sum) {
    left_tile[start + at_left(number / 16u, number % 16u)] = value;
}

fn at_left(k: u32, part: u32) -> u32 {
    return k * 16u + part;
}

fn load_right(batch: u32, first: u32, step: u32, number: u32) -> Sum {
    let k = number / 16u;
    let c = k * 64u + first + number % 16u * 4u;
    return Sum(right[c], right[c + 1u], right[c + 2u], right[c + 3u]);
}

fn place_right(start: u32, number: u32, value: Sum) {
    right_tile[start + at_right(number / 16u, number % 16u)] = value;
}

fn at_right(k: u32, part: u32) -> u32 {
    return k * 16u + part;
}

fn finish(batch: u32, row: u32, column: u32, sum: Sum) {
    for (var j = 0u; j < 4u; j++) {
        output[row * 64u + column + j] = sum[j];
    }
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = group.y * groups_x() + group.x;
    if (work >= work_count()) {
        return;
    }
    let tiles = work / column_tiles();
    let batch = tiles / row_tiles();
    let row = tiles % row_tiles() * ROWS;
    let column = work % column_tiles() * COLUMNS;
    let left_part = thread / RIGHT_PARTS;
    let right_part = thread % RIGHT_PARTS;
//@slot begin
    var left0 = load_left(batch, row, 0u, thread);
    var right0 = load_right(batch, column, 0u, thread);
    var sum0 = Sum();
    var sum1 = Sum();
    var sum2 = Sum();
    var sum3 = Sum();
//@end
    for (var step = 0u; step < step_count(); step++) {
//@slot place
        place_left(0u, thread, left0);
        place_right(0u, thread, right0);
//@end
        workgroupBarrier();
        // the last piece is brought once more, and not used
        let next = min(step + 1u, step_count() - 1u);
//@slot ahead
        left0 = load_left(batch, row, next, thread);
        right0 = load_right(batch, column, next, thread);
//@end
        // several at a time, so that values are on their way from workgroup memory while others are multiplied
        for (var start = 0u; start < 16u; start += UNROLLED) {
//@slot products
            {
                let k = start;
                let a0 = left_tile[at_left(k, left_part)];
                let b0 = right_tile[at_right(k, right_part)];
                sum0 += a0.x * b0;
                sum1 += a0.y * b0;
                sum2 += a0.z * b0;
                sum3 += a0.w * b0;
            }
//@end
        }
        workgroupBarrier();
    }
    let first_row = row + left_part * 4u;
    let first_column = column + right_part * 4u;
//@slot results
    finish(batch, first_row, first_column, sum0);
    finish(batch, first_row + 1u, first_column, sum1);
    finish(batch, first_row + 2u, first_column, sum2);
    finish(batch, first_row + 3u, first_column, sum3);
//@end
}
