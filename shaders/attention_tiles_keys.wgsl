// The gradients of attention by its keys and values: tiles as in attention_tiles.wgsl, of ROWS keys through whose
// workgroup queries and the gradients of their outputs pass.

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
const THREADS: u32 = 64u;

fn work_count() -> u32 {
    return 64u;
}

fn groups_x() -> u32 {
    return 1u;
}
//@end

// Rows of queries and keys have FEATURES vectors, those of values, outputs and their gradients OUTPUTS, multiples of
// COLUMNS with zeros at the end; key number `key` of a head is seen by the queries from `first_query(key)` on. The
// weights of the keys take WEIGHTS.
//@slot access
const FEATURES: u32 = 1u;
const OUTPUTS: u32 = 1u;
const ROWS: u32 = 16u;
const TILE: u32 = 16u;
const WEIGHTS: u32 = 80u;

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

// Each invocation has some rows of the tile of scores, number `line` the first, and four neighbouring columns of it.
// What a query does not see weighs 0. Strides are odd, so that neighbours read from different banks of memory.
const COLUMNS: u32 = TILE / 4u;
const FEATURE_STRIDE: u32 = FEATURES | 1u;
const OUTPUT_STRIDE: u32 = OUTPUTS | 1u;
const WEIGHT_STRIDE: u32 = COLUMNS | 1u;

var<workgroup> key_rows: array<vec4f, ROWS * FEATURE_STRIDE>;
var<workgroup> value_rows: array<vec4f, ROWS * OUTPUT_STRIDE>;
var<workgroup> query_rows: array<vec4f, TILE * FEATURE_STRIDE>;
var<workgroup> slope_rows: array<vec4f, TILE * OUTPUT_STRIDE>;
// Weights of the keys, and the gradients of their scores.
var<workgroup> weights: array<vec4f, WEIGHTS>;
var<workgroup> gradients: array<vec4f, WEIGHTS>;
// Of each query the logarithm of the sum of its exponentials, and what its scores have in common.
var<workgroup> numbers: array<vec2f, TILE>;

// Where row `row` of what passes through lies: the four of one invocation COLUMNS apart.
fn place_of(row: u32) -> u32 {
    return row % 4u * COLUMNS + row / 4u;
}

// Scores and the gradients of weights, the gradients of keys and values so far, and what is done with those of an
// invocation.
//@slot rows
var<private> s_0: vec4f;
var<private> g_0: vec4f;
var<private> dk_0_0: vec4f;
var<private> dv_0_0: vec4f;

fn score(line: u32, column: u32) {
    let a_0 = key_rows[line * FEATURE_STRIDE];
    let b_0 = query_rows[column * FEATURE_STRIDE];
    let b_1 = query_rows[(COLUMNS + column) * FEATURE_STRIDE];
    let b_2 = query_rows[(2u * COLUMNS + column) * FEATURE_STRIDE];
    let b_3 = query_rows[(3u * COLUMNS + column) * FEATURE_STRIDE];
    s_0 = vec4f(dot(a_0, b_0), dot(a_0, b_1), dot(a_0, b_2), dot(a_0, b_3));
}

fn slope(line: u32, column: u32) {
    let a_0 = value_rows[line * OUTPUT_STRIDE];
    let b_0 = slope_rows[column * OUTPUT_STRIDE];
    let b_1 = slope_rows[(COLUMNS + column) * OUTPUT_STRIDE];
    let b_2 = slope_rows[(2u * COLUMNS + column) * OUTPUT_STRIDE];
    let b_3 = slope_rows[(3u * COLUMNS + column) * OUTPUT_STRIDE];
    g_0 = vec4f(dot(a_0, b_0), dot(a_0, b_1), dot(a_0, b_2), dot(a_0, b_3));
}

fn weigh(line: u32, column: u32, first: u32, queries: vec4u) {
    let logs = vec4f(numbers[4u * column].x);
    let deltas = vec4f(numbers[4u * column].y);
    let is_there = queries < vec4u(query_count());
    s_0 = select(vec4f(), exp(s_0 - logs), is_there & (queries >= vec4u(first_query(first + line))));
    weights[line * WEIGHT_STRIDE + column] = s_0;
    gradients[line * WEIGHT_STRIDE + column] = s_0 * (g_0 - deltas);
}

fn add(line: u32, column: u32) {
    for (var k = 0u; k < COLUMNS; k++) {
        let p_0 = weights[line * WEIGHT_STRIDE + k];
        dv_0_0 = fma(vec4f(p_0.x), slope_rows[k * OUTPUT_STRIDE + column], dv_0_0);
    }
    for (var k = 0u; k < COLUMNS; k++) {
        let p_0 = gradients[line * WEIGHT_STRIDE + k];
        dk_0_0 = fma(vec4f(p_0.x), query_rows[k * FEATURE_STRIDE + column], dk_0_0);
    }
}

fn put(line: u32, column: u32, head: u32, first: u32) {
    if (first + line < key_count()) {
        store_key(head * key_count() + first + line, column, dk_0_0);
        store_value(head * key_count() + first + line, column, dv_0_0);
    }
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
    let blocks = (key_count() + ROWS - 1u) / ROWS;
    let head = first_head() + number / blocks;
    let first = number % blocks * ROWS;
    let line = thread / COLUMNS;
    let column = thread % COLUMNS;
    for (var n = thread; n < ROWS * FEATURES; n += THREADS) {
        let row = head * key_count() + min(first + n / FEATURES, key_count() - 1u);
        key_rows[n / FEATURES * FEATURE_STRIDE + n % FEATURES] = load_key(row, n % FEATURES);
    }
    for (var n = thread; n < ROWS * OUTPUTS; n += THREADS) {
        let row = head * key_count() + min(first + n / OUTPUTS, key_count() - 1u);
        value_rows[n / OUTPUTS * OUTPUT_STRIDE + n % OUTPUTS] = load_value(row, n % OUTPUTS);
    }
    for (var start = first_query(first); start < query_count(); start += TILE) {
        workgroupBarrier();
        for (var n = thread; n < TILE * FEATURES; n += THREADS) {
            let row = head * query_count() + min(start + n / FEATURES, query_count() - 1u);
            query_rows[place_of(n / FEATURES) * FEATURE_STRIDE + n % FEATURES] = load_query(row, n % FEATURES);
        }
        for (var n = thread; n < TILE * OUTPUTS; n += THREADS) {
            let row = head * query_count() + min(start + n / OUTPUTS, query_count() - 1u);
            slope_rows[place_of(n / OUTPUTS) * OUTPUT_STRIDE + n % OUTPUTS] = load_slope(row, n % OUTPUTS);
        }
        for (var n = thread; n < TILE; n += THREADS) {
            let row = head * query_count() + min(start + n, query_count() - 1u);
            numbers[n] = vec2f(load_log(row), delta_of(row));
        }
        workgroupBarrier();
        score(line, column);
        slope(line, column);
        weigh(line, column, first, start + 4u * column + vec4u(0u, 1u, 2u, 3u));
        workgroupBarrier();
        add(line, column);
    }
    put(line, column, head, first);
}
