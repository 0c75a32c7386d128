// Sum of products by units that multiply small matrices: tensor cores, simdgroup matrices and their like. The threads
// bring pieces of the operands into workgroup memory; each subgroup adds up a part of the workgroup's results, as
// blocks of SIZE x SIZE that its lanes hold together. While a piece is multiplied, the next one is on its way from
// memory to registers.

//@slot extensions
enable f16;
enable wgpu_cooperative_matrix;
//@end

//@slot bindings
@group(0) @binding(0) var<storage, read> left: array<f16>;
@group(0) @binding(1) var<storage, read> right: array<f16>;
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

// Each subgroup has a part. Where subgroups are smaller than they may be, there are more than parts, and those left
// over do the last part again, as matrices want all invocations to take the same way. PITCH: elements from one row (or
// value of k) of a tile to the next, more than there are, so that a column does not lie in one bank. TERMS: 2 where an
// operand of f32 is the sum of two f16, of which the low one lies LENGTH behind the high one.
//@slot types
alias Sum = vec4f;
alias Element = f16;
alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Block = coop_mat8x8<f32, C>;
const SIZE: u32 = 8u;
const ROWS: u32 = 64u;
const COLUMNS: u32 = 64u;
const STEP: u32 = 16u;
const THREADS: u32 = 128u;
const PARTS: u32 = 4u;
const TERMS: u32 = 1u;
const MAX_SUBGROUPS: u32 = 4u;
const PART_ROWS: u32 = 32u;
const PART_COLUMNS: u32 = 32u;
const LEFT_PITCH: u32 = 24u;
const LEFT_LENGTH: u32 = 1536u;
const RIGHT_PITCH: u32 = 72u;
const RIGHT_LENGTH: u32 = 1152u;
//@end

var<workgroup> left_tile: array<Element, TERMS * LEFT_LENGTH>;
var<workgroup> right_tile: array<Element, TERMS * RIGHT_LENGTH>;
// one block for each subgroup, and of the low terms' products another one
var<workgroup> results: array<f32, TERMS * MAX_SUBGROUPS * SIZE * SIZE>;

// `load_left` and `load_right` give the elements of four number `number` of a step's piece, zeros behind the last step;
// `place_left` and `place_right` put them where they belong; `finish` handles four neighbouring results in one row.
//@slot compute
fn load_left(batch: u32, first: u32, step: u32, number: u32) -> Sum {
    let at = (first + number / 4u) * 16u + number % 4u * 4u;
    return Sum(vec4<f16>(left[at], left[at + 1u], left[at + 2u], left[at + 3u]));
}

fn place_left(number: u32, value: vec4<Element>) {
    let at = number / 4u * LEFT_PITCH + number % 4u * 4u;
    left_tile[at] = value.x;
    left_tile[at + 1u] = value.y;
    left_tile[at + 2u] = value.z;
    left_tile[at + 3u] = value.w;
}

fn load_right(batch: u32, first: u32, step: u32, number: u32) -> Sum {
    let at = number / 16u * 64u + first + number % 16u * 4u;
    return Sum(vec4<f16>(right[at], right[at + 1u], right[at + 2u], right[at + 3u]));
}

fn place_right(number: u32, value: vec4<Element>) {
    let at = number / 16u * RIGHT_PITCH + number % 16u * 4u;
    right_tile[at] = value.x;
    right_tile[at + 1u] = value.y;
    right_tile[at + 2u] = value.z;
    right_tile[at + 3u] = value.w;
}

fn finish(batch: u32, row: u32, column: u32, sum: Sum) {
    for (var j = 0u; j < 4u; j++) {
        output[row * 64u + column + j] = sum[j];
    }
}
//@end

// The results of a block, which lie from `first` on, by the lanes of its subgroup.
fn finish_block(batch: u32, row: u32, column: u32, first: u32, lane: u32, lanes: u32) {
    for (var i = lane * 4u; i < SIZE * SIZE; i += lanes * 4u) {
        let at = first + i;
//@slot sum
        let sum = Sum(results[at], results[at + 1u], results[at + 2u], results[at + 3u]);
//@end
        finish(batch, row + i / SIZE, column + i % SIZE, sum);
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    @builtin(subgroup_size) lanes: u32,
) {
    let work = group.y * groups_x() + group.x;
    if (work >= work_count()) {
        return;
    }
    let tiles = work / column_tiles();
    let batch = tiles / row_tiles();
    let row = tiles % row_tiles() * ROWS;
    let column = work % column_tiles() * COLUMNS;
    let part = min(subgroup, PARTS - 1u);
    let part_row = part / (COLUMNS / PART_COLUMNS) * PART_ROWS;
    let part_column = part % (COLUMNS / PART_COLUMNS) * PART_COLUMNS;
    // Sums begin as a block of zeros that all subgroups read.
    for (var i = thread; i < SIZE * SIZE; i += THREADS) {
        results[i] = 0.0;
    }
    workgroupBarrier();
//@slot begin
    var left0 = vec4<Element>(load_left(batch, row, 0u, thread));
    var left1 = vec4<Element>(load_left(batch, row, 0u, thread + 128u));
    var right0 = vec4<Element>(load_right(batch, column, 0u, thread));
    var right1 = vec4<Element>(load_right(batch, column, 0u, thread + 128u));
    var sum00 = coopLoadT<Block>(&results[0], SIZE);
//@end
    for (var step = 0u; step < step_count(); step++) {
//@slot place
        place_left(thread, left0);
        place_left(thread + 128u, left1);
        place_right(thread, right0);
        place_right(thread + 128u, right1);
//@end
        workgroupBarrier();
        // the last piece is brought once more, and not used
        let next = min(step + 1u, step_count() - 1u);
//@slot ahead
        left0 = vec4<Element>(load_left(batch, row, next, thread));
        left1 = vec4<Element>(load_left(batch, row, next, thread + 128u));
        right0 = vec4<Element>(load_right(batch, column, next, thread));
        right1 = vec4<Element>(load_right(batch, column, next, thread + 128u));
//@end
        for (var k = 0u; k < STEP; k += SIZE) {
//@slot products
            let a0 = coopLoadT<Left>(&left_tile[part_row * LEFT_PITCH + k], LEFT_PITCH);
            let b0 = coopLoadT<Right>(&right_tile[k * RIGHT_PITCH + part_column], RIGHT_PITCH);
            sum00 = coopMultiplyAdd(a0, b0, sum00);
//@end
        }
        workgroupBarrier();
    }
    let first = subgroup * SIZE * SIZE;
//@slot results
    coopStoreT(sum00, &results[first], SIZE);
    workgroupBarrier();
    if (subgroup < PARTS) {
        finish_block(batch, row + part_row, column + part_column, first, lane, lanes);
    }
    workgroupBarrier();
//@end
}
