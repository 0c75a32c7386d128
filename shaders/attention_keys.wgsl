// The gradients of attention by its keys and values: one invocation per key, as in attention.wgsl, which keeps both rows
// and their gradients in registers while the queries of its head and the gradients of their outputs pass through
// workgroup memory.

//@slot bindings
@group(0) @binding(0) var<storage, read> queries_in: array<vec4f>;
@group(0) @binding(1) var<storage, read> keys_in: array<vec4f>;
@group(0) @binding(2) var<storage, read> values_in: array<vec4f>;
@group(0) @binding(3) var<storage, read> outputs_in: array<vec4f>;
@group(0) @binding(4) var<storage, read> logs: array<f32>;
@group(0) @binding(5) var<storage, read> slopes_in: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> gradient: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> value_gradient: array<vec4f>;
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
// key number `key` of a head is seen by the queries from `first_query(key)` on.
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

fn first_query(key: u32) -> u32 {
    return 0u;
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

fn store_key(row: u32, part: u32, value: vec4f) {
    gradient[row * FEATURES + part] = value;
}

fn store_value(row: u32, part: u32, value: vec4f) {
    value_gradient[row * OUTPUTS + part] = value;
}
//@end

var<workgroup> query_tile: array<vec4f, TILE * FEATURES>;
var<workgroup> slope_tile: array<vec4f, TILE * OUTPUTS>;
// Of each query the logarithm of the sum of its exponentials, and what its scores have in common.
var<workgroup> numbers: array<vec2f, TILE>;

// The key, the value, and their gradients so far.
//@slot rows
var<private> k_0: vec4f;
var<private> v_0: vec4f;
var<private> dk_0: vec4f;
var<private> dv_0: vec4f;

fn take(row: u32) {
    k_0 = load_key(row, 0u);
    v_0 = load_value(row, 0u);
}

fn key_by_query(index: u32) -> f32 {
    let at = index * FEATURES;
    let sum = k_0 * query_tile[at];
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn value_by_slope(index: u32) -> f32 {
    let at = index * OUTPUTS;
    let sum = v_0 * slope_tile[at];
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn add(weight: f32, factor: f32, query: u32) {
    dk_0 = fma(vec4f(factor), query_tile[query * FEATURES], dk_0);
    dv_0 = fma(vec4f(weight), slope_tile[query * OUTPUTS], dv_0);
}

fn put(row: u32) {
    store_key(row, 0u, dk_0);
    store_value(row, 0u, dv_0);
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
    let blocks = (key_count() + THREADS - 1u) / THREADS;
    let head = first_head() + number / blocks;
    let first = number % blocks * THREADS;
    let key = min(first + thread, key_count() - 1u);
    take(head * key_count() + key);
    let mine = first_query(key);
    for (var start = first_query(first); start < query_count(); start += TILE) {
        workgroupBarrier();
        for (var n = thread; n < TILE * FEATURES; n += THREADS) {
            let place = min(start + n / FEATURES, query_count() - 1u);
            query_tile[n] = load_query(head * query_count() + place, n % FEATURES);
        }
        for (var n = thread; n < TILE * OUTPUTS; n += THREADS) {
            let place = min(start + n / OUTPUTS, query_count() - 1u);
            slope_tile[n] = load_slope(head * query_count() + place, n % OUTPUTS);
        }
        for (var n = thread; n < TILE; n += THREADS) {
            let row = head * query_count() + min(start + n, query_count() - 1u);
            numbers[n] = vec2f(load_log(row), delta_of(row));
        }
        workgroupBarrier();
        let count = min(query_count() - start, TILE);
        for (var query = max(mine, start) - start; query < count; query++) {
            let weight = exp(key_by_query(query) - numbers[query].x);
            add(weight, weight * (value_by_slope(query) - numbers[query].y), query);
        }
    }
    if (first + thread < key_count()) {
        put(head * key_count() + key);
    }
}
