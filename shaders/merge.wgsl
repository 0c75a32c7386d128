// Merges neighbouring sorted runs of pairs: each invocation finds by bisection where its few results start in both
// runs, then takes the smaller key again and again. Of equal keys the left run's come first.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
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

// Rows have `row_length()` elements in runs of `run_length()`; element numbers count through all rows.
// `parts_per_row()` invocations of `RESULTS` results make a row.
//@slot access
const RESULTS: u32 = 8u;

fn row_length() -> u32 {
    return 16u;
}

fn run_length() -> u32 {
    return 8u;
}

fn parts_per_row() -> u32 {
    return 2u;
}

fn load_key(element: u32) -> u32 {
    return input[element];
}

fn load_place(element: u32) -> u32 {
    return input[16u + element];
}

fn store_pair(element: u32, key: u32, place: u32) {
    output[element] = key;
    output[16u + element] = place;
}
//@end

// Results `first..first + RESULTS` of the row whose first element is `row`.
fn merge(row: u32, first: u32) {
    let start = first - first % (2u * run_length());
    let left = row + start;
    let left_count = min(run_length(), row_length() - start);
    let right = left + left_count;
    let right_count = min(run_length(), row_length() - start - left_count);
    let diagonal = first - start;
    var i = select(0u, diagonal - right_count, diagonal > right_count);
    var end = min(diagonal, left_count);
    while (i < end) {
        let middle = (i + end) / 2u;
        if (load_key(left + middle) <= load_key(right + diagonal - 1u - middle)) {
            i = middle + 1u;
        } else {
            end = middle;
        }
    }
    var j = diagonal - i;
    let count = min(RESULTS, left_count + right_count - diagonal);
    for (var n = 0u; n < count; n++) {
        var from_left = j >= right_count;
        if (i < left_count && j < right_count) {
            from_left = load_key(left + i) <= load_key(right + j);
        }
        let source = select(right + j, left + i, from_left);
        store_pair(row + first + n, load_key(source), load_place(source));
        i += select(0u, 1u, from_left);
        j += select(1u, 0u, from_left);
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        merge(work / parts_per_row() * row_length(), work % parts_per_row() * RESULTS);
    }
}
