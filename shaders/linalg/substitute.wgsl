// Solves T X = B for a batch of small triangular matrices T, by substitution: an invocation has a column of X.

struct Params {
    size: u32,
    // Columns of each B, and of all.
    columns: u32,
    count: u32,
    // 1 if T is upper triangular, else lower; 1 if its diagonal is taken for ones.
    upper: u32,
    unit: u32,
}

@group(0) @binding(0) var<storage, read> triangles: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<f32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

// The row that has its turn in this step.
fn turn(step: u32) -> u32 {
    return select(step, params.size - 1u - step, params.upper == 1u);
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let number = (group.y * groups.x + group.x) * 64u + thread;
    if (number >= params.count) {
        return;
    }
    let matrix = number / params.columns;
    let triangle = matrix * params.size * params.size;
    let column = matrix * params.size * params.columns + number % params.columns;
    for (var step = 0u; step < params.size; step++) {
        let row = turn(step);
        var rest = right[column + row * params.columns];
        for (var earlier = 0u; earlier < step; earlier++) {
            let k = turn(earlier);
            rest -= triangles[triangle + row * params.size + k] * result[column + k * params.columns];
        }
        if (params.unit == 0u) {
            rest /= triangles[triangle + row * params.size + row];
        }
        result[column + row * params.columns] = rest;
    }
}
