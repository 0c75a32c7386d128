// Sum of products with one tile of results in the registers of each invocation and no workgroup memory: what CPU-type
// adapters want, where workgroup memory is slow, and small contractions everywhere.

//@slot bindings
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
const THREADS: u32 = 64u;

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
//@end

// Results of the tile in row `row_tile` and column `column_tile` of matrix `batch`.
//@slot compute
fn compute(batch: u32, row_tile: u32, column_tile: u32) {
    var sum = 0.0;
    for (var k = 0u; k < 8u; k++) {
        sum += left[row_tile * 8u + k] * right[k * 4u + column_tile];
    }
    output[row_tile * 4u + column_tile] = sum;
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // Neighbours take neighbouring columns: their reads of the first operand are the same.
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        let rows = work / column_tiles();
        compute(rows / row_tiles(), rows % row_tiles(), work % column_tiles());
    }
}
