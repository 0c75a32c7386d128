// Householder's QR of a batch of narrow matrices with at least as many rows as columns: a workgroup has a matrix. A
// thread has a column and some of the rows, so that neighbours touch neighbouring elements.

struct Params {
    rows: u32,
    // At most as many as threads, and the power of two from there on.
    columns: u32,
    across: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read> matrices: array<f32>;
// R, and below its diagonal the vectors v that columns are reflected by: I - scale v vᵀ; v is 1 on the diagonal.
@group(0) @binding(1) var<storage, read_write> factors: array<f32>;
// 0 where a column has nothing below its diagonal: it stays as it is.
@group(0) @binding(2) var<storage, read_write> scales: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;

const THREADS: u32 = 256u;

var<workgroup> sums: array<f32, THREADS>;

// The squares of a column from row `first` on.
fn squares(base: u32, column: u32, first: u32, thread: u32) -> f32 {
    var sum = 0.0;
    for (var row = first + thread; row < params.rows; row += THREADS) {
        let value = factors[base + row * params.columns + column];
        sum += value * value;
    }
    sums[thread] = sum;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            sums[thread] += sums[thread + half];
        }
        workgroupBarrier();
    }
    return sums[0];
}

fn factor(matrix: u32, thread: u32) {
    let columns = params.columns;
    let base = matrix * params.rows * columns;
    for (var element = thread; element < params.rows * columns; element += THREADS) {
        factors[base + element] = matrices[base + element];
    }
    let own = thread % params.across;
    let abreast = THREADS / params.across;
    for (var step = 0u; step < columns; step++) {
        storageBarrier();
        workgroupBarrier();
        let below = squares(base, step, step + 1u, thread);
        let first = factors[base + step * columns + step];
        let length = sqrt(first * first + below);
        let diagonal = select(-length, length, first < 0.0);
        var scale = 0.0;
        if (below > 0.0) {
            scale = (diagonal - first) / diagonal;
            for (var row = step + 1u + thread; row < params.rows; row += THREADS) {
                factors[base + row * columns + step] /= first - diagonal;
            }
        }
        // everyone has read the diagonal and the sum
        storageBarrier();
        workgroupBarrier();
        if (thread == 0u) {
            scales[matrix * columns + step] = scale;
            if (below > 0.0) {
                factors[base + step * columns + step] = diagonal;
            }
        }
        let reflected = own > step && own < columns;
        var sum = 0.0;
        if (reflected) {
            for (var row = step + 1u + thread / params.across; row < params.rows; row += abreast) {
                sum += factors[base + row * columns + step] * factors[base + row * columns + own];
            }
        }
        sums[thread] = sum;
        workgroupBarrier();
        var along = 0.0;
        if (reflected) {
            along = factors[base + step * columns + own];
            for (var part = 0u; part < abreast; part++) {
                along += sums[part * params.across + own];
            }
            along *= scale;
            for (var row = step + 1u + thread / params.across; row < params.rows; row += abreast) {
                factors[base + row * columns + own] -= factors[base + row * columns + step] * along;
            }
        }
        // all have read the element that one of them changes
        storageBarrier();
        if (reflected && thread < params.across) {
            factors[base + step * columns + own] -= along;
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let matrix = group.y * groups.x + group.x;
    if (matrix < params.count) {
        factor(matrix, thread);
    }
}
