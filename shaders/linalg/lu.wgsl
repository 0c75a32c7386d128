// LU factors of a batch of narrow matrices, the largest element of what is left of a column as its pivot: a workgroup
// has a matrix. A thread has a column and some of the rows, so that neighbours touch neighbouring elements.

struct Params {
    rows: u32,
    // At most as many as threads, and the power of two from there on.
    columns: u32,
    across: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read> matrices: array<f32>;
// U, and below its diagonal L, whose own is ones.
@group(0) @binding(1) var<storage, read_write> factors: array<f32>;
// Which row of the matrix each row of the factors was.
@group(0) @binding(2) var<storage, read_write> order: array<f32>;
// The sign of that permutation.
@group(0) @binding(3) var<storage, read_write> signs: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

const THREADS: u32 = 256u;
const NOWHERE: u32 = 0xffffffffu;

var<workgroup> sizes: array<f32, THREADS>;
var<workgroup> places: array<u32, THREADS>;

// The row from `first` on whose element of `column` is largest; the first one of equals.
fn largest(base: u32, column: u32, first: u32, thread: u32) -> u32 {
    var size = -1.0;
    var place = NOWHERE;
    for (var row = first + thread; row < params.rows; row += THREADS) {
        let here = abs(factors[base + row * params.columns + column]);
        if (here > size) {
            size = here;
            place = row;
        }
    }
    sizes[thread] = size;
    places[thread] = place;
    workgroupBarrier();
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        if (thread < half) {
            let other = thread + half;
            let equal = sizes[other] == sizes[thread] && places[other] < places[thread];
            if (sizes[other] > sizes[thread] || equal) {
                sizes[thread] = sizes[other];
                places[thread] = places[other];
            }
        }
        workgroupBarrier();
    }
    // of what is not a number none is
    let found = places[0];
    return select(found, first, found == NOWHERE);
}

fn factor(matrix: u32, thread: u32) {
    let columns = params.columns;
    let base = matrix * params.rows * columns;
    for (var element = thread; element < params.rows * columns; element += THREADS) {
        factors[base + element] = matrices[base + element];
    }
    for (var row = thread; row < params.rows; row += THREADS) {
        order[matrix * params.rows + row] = f32(row);
    }
    var sign = 1.0;
    let own = thread % params.across;
    let abreast = THREADS / params.across;
    for (var step = 0u; step < min(params.rows, columns); step++) {
        storageBarrier();
        workgroupBarrier();
        let pivot = largest(base, step, step, thread);
        if (pivot != step) {
            sign = -sign;
            if (thread < columns) {
                let here = base + step * columns + thread;
                let there = base + pivot * columns + thread;
                let value = factors[here];
                factors[here] = factors[there];
                factors[there] = value;
            }
            if (thread == 0u) {
                let here = matrix * params.rows + step;
                let there = matrix * params.rows + pivot;
                let value = order[here];
                order[here] = order[there];
                order[there] = value;
            }
        }
        storageBarrier();
        let diagonal = factors[base + step * columns + step];
        // a column of zeros stays one
        if (diagonal != 0.0) {
            for (var row = step + 1u + thread; row < params.rows; row += THREADS) {
                factors[base + row * columns + step] /= diagonal;
            }
        }
        storageBarrier();
        if (own > step && own < columns) {
            let above = factors[base + step * columns + own];
            for (var row = step + 1u + thread / params.across; row < params.rows; row += abreast) {
                factors[base + row * columns + own] -= factors[base + row * columns + step] * above;
            }
        }
    }
    if (thread == 0u) {
        signs[matrix] = sign;
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
