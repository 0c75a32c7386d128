// The Cholesky factor of each of a batch of small matrices: a workgroup has a matrix, an invocation a row of it.

struct Params {
    size: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read> matrices: array<f32>;
@group(0) @binding(1) var<storage, read_write> factors: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

const LARGEST: u32 = 64u;

// The rows that are done, up to their diagonals, one after the other: as a square they would be all the memory there is.
var<workgroup> rows: array<f32, LARGEST * (LARGEST + 1u) / 2u>;
var<workgroup> pivot: f32;

fn at(row: u32, column: u32) -> u32 {
    return row * (row + 1u) / 2u + column;
}

fn factor(matrix: u32, row: u32) {
    let size = params.size;
    let base = (matrix * size + row) * size;
    for (var column = 0u; column < size; column++) {
        var rest = 0.0;
        if (column <= row && row < size) {
            rest = matrices[base + column];
            for (var k = 0u; k < column; k++) {
                rest -= rows[at(row, k)] * rows[at(column, k)];
            }
        }
        if (row == column) {
            pivot = sqrt(rest);
        }
        workgroupBarrier();
        var value = 0.0;
        if (row == column) {
            value = pivot;
        } else if (column < row) {
            value = rest / pivot;
        }
        if (row < size) {
            factors[base + column] = value;
            if (column <= row) {
                rows[at(row, column)] = value;
            }
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(LARGEST)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) row: u32,
) {
    let matrix = group.y * groups.x + group.x;
    if (matrix < params.count) {
        factor(matrix, row);
    }
}
