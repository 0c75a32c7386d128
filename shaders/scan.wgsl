// Cumulative reductions: a workgroup goes over a block of neighbouring rows, a tile at a time. The threads of a row have
// a few neighbouring elements each; what comes before those is joined from what each thread, and each sixteen of them,
// come to. The order depends on sizes and on how many threads a workgroup may have.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<f32>;
@group(0) @binding(1) var<storage, read> first_values: array<f32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}

// Rows of a workgroup and threads of a row, powers of two, and elements of a thread in a tile.
const ROWS: u32 = 2u;
const SHARES: u32 = 32u;
const STEPS: u32 = 2u;
//@end

// Rows have `row_length()` elements `inner()` apart, and blocks of `block_length()`. `place(step, count)` is where in a
// block of `count` elements the one is that comes to its turn then.
//@slot access
alias Value = f32;

fn identity() -> Value {
    return 0.0;
}

fn join(a: Value, b: Value) -> Value {
    return a + b;
}

fn row_count() -> u32 {
    return 4u;
}

fn row_length() -> u32 {
    return 300u;
}

fn inner() -> u32 {
    return 2u;
}

fn block_length() -> u32 {
    return 100u;
}

fn blocks_per_row() -> u32 {
    return 3u;
}

fn place(step: u32, count: u32) -> u32 {
    return step;
}

fn load_first(element: u32) -> Value {
    return first_values[element];
}

fn load_value(element: u32) -> Value {
    return input[element];
}

fn store_result(element: u32, value: Value) {
    output[element] = value;
}
//@end

const THREADS: u32 = ROWS * SHARES;
const TILE: u32 = SHARES * STEPS;
// Threads whose results are joined one after the other, and how many times so many a row has.
const JOINED: u32 = 16u;
const PARTS: u32 = (SHARES + JOINED - 1u) / JOINED;

// A word more after 32, so that neighbouring threads meet different banks.
var<workgroup> tile: array<Value, THREADS * STEPS + THREADS * STEPS / 32u>;
var<workgroup> of_threads: array<Value, THREADS>;
var<workgroup> of_parts: array<Value, ROWS * PARTS>;

fn slot(step: u32, row: u32) -> u32 {
    let at = step * ROWS + row;
    return at + at / 32u;
}

// An element that a thread moves: its row, its turn in the tile, and where the first element of its block is.
struct Moved {
    row: u32,
    step: u32,
    base: u32,
}

fn base(row: u32, start: u32) -> u32 {
    return (row / inner() * row_length() + start) * inner() + row % inner();
}

// Of one row neighbouring elements, of several that lie side by side the same element of each.
fn moved(q: u32, own: Moved, first_row: u32, start: u32) -> Moved {
    if (inner() > 1u) {
        return Moved(own.row, q / ROWS, own.base);
    }
    let row = q / TILE;
    return Moved(row, q % TILE, base(first_row + row, start));
}

fn compute(work: u32, thread: u32) {
    let block = work % blocks_per_row();
    let start = block * block_length();
    let count = min(block_length(), row_length() - start);
    let first_row = work / blocks_per_row() * ROWS;
    let row = thread % ROWS;
    let share = thread / ROWS;
    let part = share / JOINED;
    let own_row = Moved(row, 0u, base(first_row + row, start));
    var so_far = identity();
    if (first_row + row < row_count()) {
        let outer = (first_row + row) / inner();
        so_far = load_first((outer * blocks_per_row() + block) * inner() + (first_row + row) % inner());
    }
    for (var done = 0u; done < count; done += TILE) {
        for (var q = thread; q < THREADS * STEPS; q += THREADS) {
            let to = moved(q, own_row, first_row, start);
            var value = identity();
            if (first_row + to.row < row_count() && done + to.step < count) {
                value = load_value(to.base + place(done + to.step, count) * inner());
            }
            tile[slot(to.step, to.row)] = value;
        }
        workgroupBarrier();
        var own = tile[slot(share * STEPS, row)];
        for (var step = 1u; step < STEPS; step++) {
            own = join(own, tile[slot(share * STEPS + step, row)]);
        }
        of_threads[thread] = own;
        workgroupBarrier();
        var before = identity();
        for (var other = part * JOINED; other < share; other++) {
            before = join(before, of_threads[other * ROWS + row]);
        }
        if (share % JOINED == JOINED - 1u || share == SHARES - 1u) {
            of_parts[part * ROWS + row] = join(before, own);
        }
        workgroupBarrier();
        var result = so_far;
        for (var other = 0u; other < PARTS; other++) {
            so_far = join(so_far, of_parts[other * ROWS + row]);
            if (other < part) {
                result = so_far;
            }
        }
        result = join(result, before);
        for (var step = 0u; step < STEPS; step++) {
            let at = slot(share * STEPS + step, row);
            result = join(result, tile[at]);
            tile[at] = result;
        }
        workgroupBarrier();
        // the next tile's elements take the places that this thread reads here
        for (var q = thread; q < THREADS * STEPS; q += THREADS) {
            let to = moved(q, own_row, first_row, start);
            if (first_row + to.row < row_count() && done + to.step < count) {
                store_result(to.base + place(done + to.step, count) * inner(), tile[slot(to.step, to.row)]);
            }
        }
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    // The condition depends on the group only, so barriers stay uniform.
    let work = group.y * groups_x() + group.x;
    if (work < work_count()) {
        compute(work, thread);
    }
}
