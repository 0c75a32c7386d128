// Reduces rows of values over segments: one invocation per result adds up its segment from the first element to the
// last, so that the same data always gives the same bits.

//@slot bindings
@group(0) @binding(0) var<storage, read> values: array<f32>;
@group(0) @binding(1) var<storage, read> starts: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<f32>;
//@end

//@slot grid
const THREADS: u32 = 64u;

fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}
//@end

// `width()` results per segment, which has at most `longest()` elements; `place(p)` is the row of the `p`-th one.
//@slot access
alias Value = f32;

fn identity() -> Value {
    return 0.0;
}

fn join(a: Value, b: Value) -> Value {
    return a + b;
}

fn width() -> u32 {
    return 1u;
}

fn longest() -> u32 {
    return 8u;
}

fn positions() -> u32 {
    return 8u;
}

fn last_row() -> u32 {
    return 7u;
}

fn load_start(segment: u32) -> u32 {
    return starts[segment];
}

fn place(p: u32) -> u32 {
    return p;
}

fn load_value(element: u32) -> Value {
    return values[element];
}

fn store_result(element: u32, value: Value) {
    output[element] = value;
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        let segment = work / width();
        let column = work % width();
        // Clamped, as nothing else bounds what memory says that an earlier kernel was kept from writing.
        let start = min(load_start(segment), positions());
        let end = min(load_start(segment + 1u), min(start + longest(), positions()));
        var sum = identity();
        for (var p = start; p < end; p++) {
            sum = join(sum, load_value(min(place(p), last_row()) * width() + column));
        }
        store_result(work, sum);
    }
}
