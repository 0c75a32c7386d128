// Makes the columns of each of a batch of narrow matrices orthogonal by turning pairs of them (Hestenes' one-sided
// Jacobi method), and turns what stands below them along: a workgroup has a matrix.

struct Params {
    // Columns, at most 64.
    size: u32,
    // Rows that are to be orthogonal, and all.
    rows: u32,
    height: u32,
    count: u32,
    // 1 if only pairs of a column of the left half and one of the right half are turned.
    across: u32,
    // Threads of a pair.
    lanes: u32,
    // Times that all pairs are looked at, at the most.
    sweeps: u32,
    // Pairs that are as orthogonal as that, by the cosine of their angle, stay as they are.
    tolerance: f32,
}

@group(0) @binding(0) var<storage, read> stacks: array<f32>;
// The largest cosine of a pair's angle when it was looked at last.
@group(0) @binding(1) var<storage, read> before: array<f32>;
@group(0) @binding(2) var<storage, read_write> turned: array<f32>;
// That of the last sweep.
@group(0) @binding(3) var<storage, read_write> cosines: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

const THREADS: u32 = 256u;

var<workgroup> sums: array<vec3f, THREADS>;
var<workgroup> parts: array<f32, THREADS>;

// The largest of all threads' values.
fn largest(value: f32, thread: u32) -> f32 {
    parts[thread] = value;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) {
            parts[thread] = max(parts[thread], parts[thread + half]);
        }
    }
    return workgroupUniformLoad(&parts[0]);
}

// The sine of the turn after which two columns are orthogonal, from their squares and their product, and the tangent of
// half of it: by these, small turns add little to a column, and round little of it (Rutishauser 1966).
fn turn(first: f32, second: f32, product: f32) -> vec2f {
    let slope = (second - first) / (2.0 * product);
    var tangent = 0.5 / slope;
    if (abs(slope) < 1e9) {
        tangent = select(-1.0, 1.0, slope >= 0.0) / (abs(slope) + sqrt(1.0 + slope * slope));
    }
    let cosine = 1.0 / sqrt(1.0 + tangent * tangent);
    let sine = cosine * tangent;
    return vec2f(sine, sine / (1.0 + cosine));
}

// The columns of a pair. In each step a column is in one pair, and in as many as there are it meets all others once.
fn pair_of(step: u32, pair: u32) -> vec2u {
    if (params.across == 1u) {
        let half = params.size / 2u;
        return vec2u(pair, half + (step + pair) % half);
    }
    // one stays, the others go round
    let others = params.size - 1u + params.size % 2u;
    if (pair == 0u) {
        return vec2u(step, others);
    }
    return vec2u((step + pair) % others, (step + others - pair) % others);
}

// One step; the cosine of the angle of this thread's pair.
fn pairs(base: u32, step: u32, thread: u32) -> f32 {
    let size = params.size;
    let lanes = params.lanes;
    let lane = thread % lanes;
    let pair = thread / lanes;
    let columns = pair_of(step, pair);
    let plays = pair < (size + 1u) / 2u && max(columns.x, columns.y) < size;
    var sum = vec3f();
    if (plays) {
        for (var row = lane; row < params.rows; row += lanes) {
            let a = turned[base + row * size + columns.x];
            let b = turned[base + row * size + columns.y];
            sum += vec3f(a * a, b * b, a * b);
        }
    }
    sums[thread] = sum;
    workgroupBarrier();
    var cosine = 0.0;
    if (plays) {
        sum = vec3f();
        for (var other = thread - lane; other < thread - lane + lanes; other++) {
            sum += sums[other];
        }
        if (sum.z != 0.0) {
            cosine = min(abs(sum.z) / (sqrt(sum.x) * sqrt(sum.y)), 1.0);
        }
    }
    if (cosine > params.tolerance) {
        let by = turn(sum.x, sum.y, sum.z);
        for (var row = lane; row < params.height; row += lanes) {
            let a = turned[base + row * size + columns.x];
            let b = turned[base + row * size + columns.y];
            turned[base + row * size + columns.x] = a - by.x * (b + by.y * a);
            turned[base + row * size + columns.y] = b + by.x * (a - by.y * b);
        }
    }
    workgroupBarrier();
    storageBarrier();
    return cosine;
}

fn sweep(matrix: u32, thread: u32) {
    let size = params.size;
    let base = matrix * params.height * size;
    for (var element = thread; element < params.height * size; element += THREADS) {
        turned[base + element] = stacks[base + element];
    }
    storageBarrier();
    let steps = select(size - 1u + size % 2u, size / 2u, params.across == 1u);
    var cosine = largest(before[matrix], thread);
    for (var number = 0u; number < params.sweeps && cosine > params.tolerance; number++) {
        var own = 0.0;
        for (var step = 0u; step < steps; step++) {
            own = max(own, pairs(base, step, thread));
        }
        cosine = largest(own, thread);
    }
    if (thread == 0u) {
        cosines[matrix] = cosine;
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
        sweep(matrix, thread);
    }
}
