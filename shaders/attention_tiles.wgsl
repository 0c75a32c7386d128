// Attention: a workgroup has a tile of ROWS queries, whose keys and values pass through its memory in tiles of TILE. The
// products of both tiles are shared among its invocations, and so are those of weights and values; scores are in
// registers only, weights in the memory that the keys had. The softmax is online (Milakov and Gimelshein 2018, arXiv
// 1805.02867): what has been summed shrinks when a larger score comes.

//@slot bindings
@group(0) @binding(0) var<storage, read> queries_in: array<vec4f>;
@group(0) @binding(1) var<storage, read> keys_in: array<vec4f>;
@group(0) @binding(2) var<storage, read> values_in: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> out: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> logs: array<f32>;
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

// Rows of queries and keys have FEATURES vectors, those of values and outputs OUTPUTS, multiples of COLUMNS with zeros
// at the end; query number `query` of a head sees the first `seen(query)` keys. Keys and weights fit into WEIGHTS.
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

// Each invocation has some rows of the tile of scores, number `line` the first, and four neighbouring columns of it.
// What a query does not see weighs 0. Strides are odd, so that neighbours read from different banks of memory.
const COLUMNS: u32 = TILE / 4u;
const FEATURE_STRIDE: u32 = FEATURES | 1u;
const OUTPUT_STRIDE: u32 = OUTPUTS | 1u;
const WEIGHT_STRIDE: u32 = COLUMNS | 1u;

// Below every score that is finite.
const LEAST: f32 = -3.4e38;

var<workgroup> query_rows: array<vec4f, ROWS * FEATURE_STRIDE>;
// Keys, and once their scores are known, the weights of each query.
var<workgroup> key_rows: array<vec4f, WEIGHTS>;
var<workgroup> value_rows: array<vec4f, TILE * OUTPUT_STRIDE>;
// Of each query, what its invocations tell each other: the highest of their scores, and at the end their sums of weights.
var<workgroup> tops: array<f32, ROWS * COLUMNS>;

// Where row `row` of what passes through lies: the four of one invocation COLUMNS apart.
fn place_of(row: u32) -> u32 {
    return row % 4u * COLUMNS + row / 4u;
}

fn highest(row: u32) -> f32 {
    var top = tops[row * COLUMNS];
    for (var column = 1u; column < COLUMNS; column++) {
        top = max(top, tops[row * COLUMNS + column]);
    }
    return top;
}

fn total(row: u32) -> f32 {
    var sum = tops[row * COLUMNS];
    for (var column = 1u; column < COLUMNS; column++) {
        sum += tops[row * COLUMNS + column];
    }
    return sum;
}

// Scores, outputs so far, highest scores and sums of weights, and what is done with those of an invocation.
//@slot rows
var<private> s_0: vec4f;
var<private> o_0_0: vec4f;
var<private> top_0: f32 = LEAST;
var<private> sum_0: f32;

fn score(line: u32, column: u32) {
    let a_0 = query_rows[line * FEATURE_STRIDE];
    let b_0 = key_rows[column * FEATURE_STRIDE];
    let b_1 = key_rows[(COLUMNS + column) * FEATURE_STRIDE];
    let b_2 = key_rows[(2u * COLUMNS + column) * FEATURE_STRIDE];
    let b_3 = key_rows[(3u * COLUMNS + column) * FEATURE_STRIDE];
    s_0 = vec4f(dot(a_0, b_0), dot(a_0, b_1), dot(a_0, b_2), dot(a_0, b_3));
}

fn tell_tops(line: u32, column: u32, first: u32, keys: vec4u) {
    s_0 = select(vec4f(LEAST), s_0, keys < vec4u(seen(first + line)));
    tops[line * COLUMNS + column] = max(max(s_0.x, s_0.y), max(s_0.z, s_0.w));
}

fn weigh(line: u32, column: u32, first: u32, keys: vec4u) {
    let top = max(top_0, highest(line));
    let weights = select(vec4f(), exp(s_0 - top), keys < vec4u(seen(first + line)));
    let factor = exp(top_0 - top);
    sum_0 = fma(sum_0, factor, (weights.x + weights.y) + (weights.z + weights.w));
    o_0_0 *= factor;
    top_0 = top;
    key_rows[line * WEIGHT_STRIDE + column] = weights;
}

fn add(line: u32, column: u32) {
    for (var k = 0u; k < COLUMNS; k++) {
        let p_0 = key_rows[line * WEIGHT_STRIDE + k];
        o_0_0 = fma(vec4f(p_0.x), value_rows[k * OUTPUT_STRIDE + column], o_0_0);
    }
}

fn tell_sums(line: u32, column: u32) {
    tops[line * COLUMNS + column] = sum_0;
}

fn put(line: u32, column: u32, head: u32, first: u32) {
    if (first + line < query_count()) {
        let row = head * query_count() + first + line;
        let sum = total(line);
        store_output(row, column, o_0_0 / sum);
        if (column == 0u) {
            store_log(row, top_0 + log(sum));
        }
    }
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let number = group.y * groups_x() + group.x;
    if (number * THREADS >= work_count()) {
        return;
    }
    let blocks = (query_count() + ROWS - 1u) / ROWS;
    let head = first_head() + number / blocks;
    let first = number % blocks * ROWS;
    let line = thread / COLUMNS;
    let column = thread % COLUMNS;
    for (var n = thread; n < ROWS * FEATURES; n += THREADS) {
        let row = head * query_count() + min(first + n / FEATURES, query_count() - 1u);
        query_rows[n / FEATURES * FEATURE_STRIDE + n % FEATURES] = load_query(row, n % FEATURES);
    }
    let end = seen(min(first + ROWS, query_count()) - 1u);
    for (var start = 0u; start < end; start += TILE) {
        workgroupBarrier();
        for (var n = thread; n < TILE * FEATURES; n += THREADS) {
            let row = head * key_count() + min(start + n / FEATURES, key_count() - 1u);
            key_rows[place_of(n / FEATURES) * FEATURE_STRIDE + n % FEATURES] = load_key(row, n % FEATURES);
        }
        for (var n = thread; n < TILE * OUTPUTS; n += THREADS) {
            let row = head * key_count() + min(start + n / OUTPUTS, key_count() - 1u);
            value_rows[place_of(n / OUTPUTS) * OUTPUT_STRIDE + n % OUTPUTS] = load_value(row, n % OUTPUTS);
        }
        workgroupBarrier();
        let keys = start + 4u * column + vec4u(0u, 1u, 2u, 3u);
        score(line, column);
        tell_tops(line, column, first, keys);
        workgroupBarrier();
        weigh(line, column, first, keys);
        workgroupBarrier();
        add(line, column);
    }
    tell_sums(line, column);
    workgroupBarrier();
    put(line, column, head, first);
}
