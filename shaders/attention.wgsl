// Attention: one invocation per query. The query and its output stay in registers while the keys and values of its head
// pass through workgroup memory, so that scores are never stored. The softmax is online (Milakov and Gimelshein 2018,
// arXiv 1805.02867): what has been summed shrinks when a larger score comes.

//@slot bindings
@group(0) @binding(0) var<storage, read> queries_in: array<vec4f>;
@group(0) @binding(1) var<storage, read> keys_in: array<vec4f>;
@group(0) @binding(2) var<storage, read> values_in: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> logs: array<f32>;
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

// Rows of queries and keys have FEATURES vectors, those of values and outputs OUTPUTS, with zeros at the end;
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

fn store_output(row: u32, part: u32, value: vec4f) {
    out[row * OUTPUTS + part] = value;
}

fn store_log(row: u32, value: f32) {
    logs[row] = value;
}
//@end

var<workgroup> key_tile: array<vec4f, TILE * FEATURES>;
var<workgroup> value_tile: array<vec4f, TILE * OUTPUTS>;

// Below every score that is finite.
const LEAST: f32 = -3.4e38;

// The query, scaled, and the output so far.
//@slot rows
var<private> q_0: vec4f;
var<private> o_0: vec4f;

fn take(row: u32) {
    q_0 = load_query(row, 0u);
}

fn query_by_key(index: u32) -> f32 {
    let at = index * FEATURES;
    let sum = q_0 * key_tile[at];
    return (sum.x + sum.y) + (sum.z + sum.w);
}

fn shrink(factor: f32) {
    o_0 *= factor;
}

fn add(weight: f32, key: u32) {
    o_0 = fma(vec4f(weight), value_tile[key * OUTPUTS], o_0);
}

fn put(row: u32, factor: f32) {
    store_output(row, 0u, o_0 * factor);
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
    let mine = seen(query);
    let end = seen(min(first + THREADS, query_count()) - 1u);
    var top = LEAST;
    var sum = 0.0;
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
            let s = query_by_key(key);
            if (s > top) {
                let factor = exp(top - s);
                sum *= factor;
                shrink(factor);
                top = s;
            }
            let weight = exp(s - top);
            sum += weight;
            add(weight, key);
        }
    }
    if (first + thread < query_count()) {
        put(row, 1.0 / sum);
        store_log(row, top + log(sum));
    }
}
