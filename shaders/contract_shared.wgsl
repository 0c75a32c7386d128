// As contract.wgsl, but several invocations share the sums of one tile, each of which takes every SHARES-th piece of the
// summed points, and meet in a tree of fixed shape: small contractions, whose tiles would leave most of a GPU idle and
// each of the others waiting for its loads step after step.

//@slot bindings
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot shared
const SHARES: u32 = 4u;
// tiles of a workgroup
const TILES: u32 = 16u;

var<workgroup> parts: array<f32, 64>;
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
//@end

// Results of the tile in row `row_tile` and column `column_tile` of matrix `batch`, of whose summed points this thread
// has those of number `share`. One of those that share a tile `stores` them.
//@slot compute
fn compute(batch: u32, row_tile: u32, column_tile: u32, share: u32, thread: u32, stores: bool) {
    var sum = 0.0;
    for (var k = share; k < 8u; k += SHARES) {
        sum += left[row_tile * 8u + k] * right[k * 4u + column_tile];
    }
    parts[thread] = sum;
    workgroupBarrier();
    if (thread < TILES) {
        sum = parts[thread];
        for (var other = 1u; other < SHARES; other++) {
            sum += parts[thread + other * TILES];
        }
    }
    if (stores) {
        output[row_tile * 4u + column_tile] = sum;
    }
}
//@end

@compute @workgroup_size(SHARES * TILES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // Neighbours take neighbouring columns: their reads of the first operand are the same.
    let first = (group.y * groups_x() + group.x) * TILES;
    // depends on the group only, so barriers stay uniform
    if (first < work_count()) {
        // behind the last tile it is computed once more, and not stored
        let work = min(first + thread % TILES, work_count() - 1u);
        let rows = work / column_tiles();
        let stores = thread < TILES && first + thread < work_count();
        compute(rows / row_tiles(), rows % row_tiles(), work % column_tiles(), thread / TILES, thread, stores);
    }
}
