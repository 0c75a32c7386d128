// The gradient of attention by its queries: one invocation per query, as in attention.wgsl. Weights are computed again
// from the scores and the logarithm of the sum of their exponentials.

//@slot bindings
@group(0) @binding(0) var<storage, read> queries_in: array<vec4f>;
@group(0) @binding(1) var<storage, read> keys_in: array<vec4f>;
@group(0) @binding(2) var<storage, read> values_in: array<vec4f>;
@group(0) @binding(3) var<storage, read> outputs_in: array<vec4f>;
@group(0) @binding(4) var<storage, read> logs: array<f32>;
@group(0) @binding(5) var<storage, read> slopes_in: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> gradient: array<vec4f>;
//@end

//@slot grid
const THREADS: u32 = 128u;

fn work_count() -> u32 {
    return 128u;
}

fn groups_x() -> u32 {
    return 1u;
}
//@end

// Rows of queries and keys have FEATURES vectors, those of values, outputs and their gradients OUTPUTS, with zeros at the end;
// query number `query` of a head sees the first `seen(query)` keys.
//@slot access
const FEATURES: u32 = 1u;
const OUTPUTS: u32 = 1u;
const TILE: u32 = 2u;

fn first_head() -> u32 {
    return 0u;
}

fn query_count() -> u32 {
    return 1u;
}

fn key_count() -> u32 {
    return 1u;
}

fn seen(query: u32) -> u32 {
    return key_count();
}

fn load_query(row: u32, part: u32) -> vec4f {
    return queries_in[row * FEATURES + part];
}

fn load_key(row: u32, part: u32) -> vec4f {
    return keys_in[row * FEATURES + part];
}

fn load_value(row: u32, part: u32) -> vec4f {
    return values_in[row * OUTPUTS + part];
}

fn load_output(row: u32, part: u32) -> vec4f {
    return outputs_in[row * OUTPUTS + part];
}

fn load_slope(row: u32, part: u32) -> vec4f {
    return slopes_in[row * OUTPUTS + part];
}

fn load_log(row: u32) -> f32 {
    return logs[row];
}

fn store_query(row: u32, part: u32, value: vec4f) {
    gradient[row * FEATURES + part] = value;
}
//@end

var<workgroup> key_tile: array<vec4f, TILE * FEATURES>;
var<workgroup> value_tile: array<vec4f, TILE * OUTPUTS>;

// The query, scaled, the gradient of its output, and its own gradient so far.
//@slot rows
var<private> q_0: vec4f;
var<private> g_0: vec4f;
var<private> d_0: vec4f;

fn take(row: u32) {
    q_0 = load_query(row, 0u);
    g_0 = load_slope(row, 0u);
}

fn query_by_key(index: u32) -> f32 {
    let at = index * FEATURES;
    let sum = q_0 * key_tile[at];
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn slope_by_value(index: u32) -> f32 {
    let at = index * OUTPUTS;
    let sum = g_0 * value_tile[at];
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn add(factor: f32, key: u32) {
    d_0 = fma(vec4f(factor), key_tile[key * FEATURES], d_0);
}

fn put(row: u32) {
    store_query(row, 0u, d_0);
}

// What the gradients of all of a query's scores lack: the product of its output and the gradient of that.
fn delta_of(row: u32) -> f32 {
    let sum = load_output(row, 0u) * load_slope(row, 0u);
    return (sum.x + sum.y) + (sum.z + sum.w);
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group.y * groups_x() + group.x;
    if (number * THREADS >= work_count()) {
        return;
    }
    let blocks = (query_count() + THREADS - 1u) / THREADS;
    let head = first_head() + number / blocks;
    let first = number % blocks * THREADS;
    let query = min(first + thread, query_count() - 1u);
    let row = head * query_count() + query;
    take(row);
    let log_sum = load_log(row);
    let delta = delta_of(row);
    let mine = seen(query);
    let end = seen(min(first + THREADS, query_count()) - 1u);
    for (var start = 0u; start < end; start += TILE) {
        workgroupBarrier();
        for (var n = thread; n < TILE * FEATURES; n += THREADS) {
            let place = min(start + n / FEATURES, key_count() - 1u);
            key_tile[n] = load_key(head * key_count() + place, n % FEATURES);
        }
        for (var n = thread; n < TILE * OUTPUTS; n += THREADS) {
            let place = min(start + n / OUTPUTS, key_count() - 1u);
            value_tile[n] = load_value(head * key_count() + place, n % OUTPUTS);
        }
        workgroupBarrier();
        let count = min(max(mine, start) - start, TILE);
        for (var key = 0u; key < count; key++) {
            add(exp(query_by_key(key) - log_sum) * (slope_by_value(key) - delta), key);
        }
    }
    if (first + thread < query_count()) {
        put(row);
    }
}
