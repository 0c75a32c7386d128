// Whether units that multiply small matrices give what they should, in the ways that contractions use them: operands in
// workgroup memory in both orders, placed anew in each step, sums from and to workgroup memory, a part for each
// subgroup. All numbers are small whole ones, so results are exact.

//@slot types
enable f16;
enable wgpu_cooperative_matrix;
alias Element = f16;
alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Block = coop_mat8x8<f32, C>;
const SIZE: u32 = 8u;
const THREADS: u32 = 64u;
const PARTS: u32 = 2u;
const MAX_SUBGROUPS: u32 = 8u;
//@end

// How many results are right.
@group(0) @binding(0) var<storage, read_write> right_results: array<atomic<u32>>;

const STEPS: u32 = 3u;
const PITCH: u32 = SIZE + 8u;
const LEFT_PITCH: u32 = PARTS * SIZE + 8u;
var<workgroup> left_rows: array<Element, PARTS * SIZE * PITCH>;
var<workgroup> left_columns: array<Element, SIZE * LEFT_PITCH>;
var<workgroup> right_rows: array<Element, SIZE * PITCH>;
var<workgroup> right_columns: array<Element, SIZE * PITCH>;
var<workgroup> results: array<f32, MAX_SUBGROUPS * SIZE * SIZE>;

fn left_value(row: u32, k: u32) -> i32 {
    return i32((7u * row + 3u * k) % 17u) - 8;
}

fn right_value(k: u32, column: u32) -> i32 {
    return i32((5u * k + 11u * column) % 13u) - 6;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32) {
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        results[at] = 0.0;
    }
    workgroupBarrier();
    let part = min(subgroup, PARTS - 1u) * SIZE;
    var sum = coopLoadT<Block>(&results[0], SIZE);
    for (var step = 0u; step < STEPS; step++) {
        for (var at = thread; at < PARTS * SIZE * SIZE; at += THREADS) {
            let row = at / SIZE;
            let k = at % SIZE;
            let value = Element(left_value(row, step * SIZE + k));
            left_rows[row * PITCH + k] = value;
            left_columns[k * LEFT_PITCH + row] = value;
        }
        for (var at = thread; at < SIZE * SIZE; at += THREADS) {
            let k = at / SIZE;
            let column = at % SIZE;
            let value = Element(right_value(step * SIZE + k, column));
            right_rows[k * PITCH + column] = value;
            right_columns[column * PITCH + k] = value;
        }
        workgroupBarrier();
        let a = coopLoadT<Left>(&left_rows[part * PITCH], PITCH);
        sum = coopMultiplyAdd(a, coopLoad<Right>(&right_columns[0], PITCH), sum);
        let b = coopLoad<Left>(&left_columns[part], LEFT_PITCH);
        sum = coopMultiplyAdd(b, coopLoadT<Right>(&right_rows[0], PITCH), sum);
        workgroupBarrier();
    }
    coopStoreT(sum, &results[subgroup * SIZE * SIZE], SIZE);
    workgroupBarrier();
    for (var at = thread; at < PARTS * SIZE * SIZE; at += THREADS) {
        var product = 0;
        for (var k = 0u; k < STEPS * SIZE; k++) {
            product += left_value(at / SIZE, k) * right_value(k, at % SIZE);
        }
        if (results[at] == f32(2 * product)) {
            atomicAdd(&right_results[0], 1u);
        }
    }
}
