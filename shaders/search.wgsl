// Finds by bisection how many elements of an ascending row come before each query: one invocation per query.

//@slot bindings
@group(0) @binding(0) var<storage, read> rows: array<u32>;
@group(0) @binding(1) var<storage, read> queries: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
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

//@slot access
fn is_before(element: u32, query: u32) -> bool {
    return element < query;
}

fn row_length() -> u32 {
    return 8u;
}

fn queries_per_row() -> u32 {
    return 1u;
}

fn load_element(element: u32) -> u32 {
    return rows[element];
}

fn load_query(element: u32) -> u32 {
    return queries[element];
}

fn store_result(element: u32, value: u32) {
    output[element] = value;
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = (group.y * groups_x() + group.x) * THREADS + thread;
    if (work < work_count()) {
        let row = work / queries_per_row() * row_length();
        let query = load_query(work);
        var found = 0u;
        var end = row_length();
        while (found < end) {
            let middle = (found + end) / 2u;
            if (is_before(load_element(row + middle), query)) {
                found = middle + 1u;
            } else {
                end = middle;
            }
        }
        store_result(work, found);
    }
}
