// As contract.wgsl, where neighbouring lanes of a subgroup, which is all of a workgroup, share what they read of the
// first operand: their tiles have the same rows. It is for CPU-type adapters, which read for each lane on its own.

//@slot bindings
@group(0) @binding(0) var<storage, read> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
const LANES: u32 = 8u;
const SHARING: u32 = 4u;

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

fn column_blocks() -> u32 {
    return 1u;
}
//@end

// Results of the tile in row `row_tile` and column `column_tile` of matrix `batch`, if it `stores` them.
//@slot compute
fn compute(batch: u32, row_tile: u32, column_tile: u32, lane: u32, stores: bool) {
    let first = lane - lane % SHARING;
    var sums = vec4f();
    for (var k = 0u; k < 8u; k++) {
        let own = left[(row_tile * SHARING + lane - first) * 8u + k];
        let value = right[k * 4u + column_tile];
        sums += value * vec4f(
            subgroupShuffle(own, first),
            subgroupShuffle(own, first + 1u),
            subgroupShuffle(own, first + 2u),
            subgroupShuffle(own, first + 3u),
        );
    }
    if (stores) {
        for (var row = 0u; row < 4u; row++) {
            output[(row_tile * 4u + row) * 4u + column_tile] = sums[row];
        }
    }
}
//@end

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(subgroup_invocation_id) lane: u32) {
    // Lanes that share have neighbouring columns. One of them that has none, or no work, does in vain what the last one
    // does, so that all of a subgroup are there to exchange values.
    let number = ((group.y * groups_x() + group.x) * LANES + lane) / SHARING;
    let work = min(number, work_count() - 1u);
    let rows = work / column_blocks();
    let column_tile = work % column_blocks() * SHARING + lane % SHARING;
    let last = column_tiles() - 1u;
    let stores = number == work && column_tile <= last;
    compute(rows / row_tiles(), rows % row_tiles(), min(column_tile, last), lane, stores);
}
