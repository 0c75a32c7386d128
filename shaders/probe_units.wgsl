// Whether units that multiply small matrices give what they should, in the ways that contractions use them: operands in
// workgroup memory in both orders, sums from and to workgroup memory. All numbers are small whole ones, so results are exact.

//@slot types
enable f16;
enable wgpu_cooperative_matrix;
alias Element = f16;
alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Block = coop_mat8x8<f32, C>;
const SIZE: u32 = 8u;
const THREADS: u32 = 32u;
const MOST_SUBGROUPS: u32 = 4u;
//@end

// How many results of the first subgroup are right.
@group(0) @binding(0) var<storage, read_write> right_results: array<atomic<u32>>;

const PITCH: u32 = SIZE + 8u;
var<workgroup> left_rows: array<Element, SIZE * PITCH>;
var<workgroup> left_columns: array<Element, SIZE * PITCH>;
var<workgroup> right_rows: array<Element, SIZE * PITCH>;
var<workgroup> right_columns: array<Element, SIZE * PITCH>;
var<workgroup> results: array<f32, MOST_SUBGROUPS * SIZE * SIZE>;

fn left_value(row: u32, k: u32) -> i32 {
    return i32((7u * row + 3u * k) % 17u) - 8;
}

fn right_value(k: u32, column: u32) -> i32 {
    return i32((5u * k + 11u * column) % 13u) - 6;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32) {
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        let line = at / SIZE;
        let place = at % SIZE;
        left_rows[line * PITCH + place] = Element(left_value(line, place));
        left_columns[line * PITCH + place] = Element(left_value(place, line));
        right_rows[line * PITCH + place] = Element(right_value(line, place));
        right_columns[line * PITCH + place] = Element(right_value(place, line));
        results[at] = 0.0;
    }
    workgroupBarrier();
    var sum = coopLoadT<Block>(&results[0], SIZE);
    sum = coopMultiplyAdd(coopLoadT<Left>(&left_rows[0], PITCH), coopLoad<Right>(&right_columns[0], PITCH), sum);
    sum = coopMultiplyAdd(coopLoad<Left>(&left_columns[0], PITCH), coopLoadT<Right>(&right_rows[0], PITCH), sum);
    workgroupBarrier();
    coopStoreT(sum, &results[subgroup * SIZE * SIZE], SIZE);
    workgroupBarrier();
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        var product = 0;
        for (var k = 0u; k < SIZE; k++) {
            product += left_value(at / SIZE, k) * right_value(k, at % SIZE);
        }
        if (results[at] == f32(2 * product)) {
            atomicAdd(&right_results[0], 1u);
        }
    }
}
