// Sorts runs of keys, with their places, in workgroup memory: each thread puts four in order, then runs are merged into
// runs twice as long. Equal keys keep their order.

//@slot bindings
@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
//@end

//@slot grid
const THREADS: u32 = 4u;

fn work_count() -> u32 {
    return 1u;
}

fn groups_x() -> u32 {
    return 1u;
}
//@end

// Rows have `row_length()` elements in `runs_per_row()` runs; element numbers count through all rows.
//@slot access
fn row_length() -> u32 {
    return 16u;
}

fn runs_per_row() -> u32 {
    return 1u;
}

fn load_key(element: u32) -> u32 {
    return input[element];
}

fn store_pair(element: u32, key: u32, place: u32) {
    output[element] = key;
    output[16u + element] = place;
}
//@end

const RUN: u32 = THREADS * 4u;

var<workgroup> keys: array<u32, RUN>;
var<workgroup> places: array<u32, RUN>;

// Exchanges neighbours that are out of order.
fn order(first: u32) {
    let a = keys[first];
    let b = keys[first + 1u];
    if (a > b) {
        keys[first] = b;
        keys[first + 1u] = a;
        let place = places[first];
        places[first] = places[first + 1u];
        places[first + 1u] = place;
    }
}

// Merges runs of `length` elements: each thread finds where its four results start in both runs.
fn merge(thread: u32, length: u32) {
    let target_place = thread * 4u;
    let left = target_place / (2u * length) * (2u * length);
    let right = left + length;
    let diagonal = target_place - left;
    var i = select(0u, diagonal - length, diagonal > length);
    var end = min(diagonal, length);
    while (i < end) {
        let middle = (i + end) / 2u;
        if (keys[left + middle] <= keys[right + diagonal - 1u - middle]) {
            i = middle + 1u;
        } else {
            end = middle;
        }
    }
    var j = diagonal - i;
    // arrays: DirectX's older compiler refuses components of a vector by a number that varies
    var merged_keys: array<u32, 4>;
    var merged_places: array<u32, 4>;
    for (var n = 0u; n < 4u; n++) {
        var from_left = j >= length;
        if (i < length && j < length) {
            from_left = keys[left + i] <= keys[right + j];
        }
        let source = select(right + j, left + i, from_left);
        merged_keys[n] = keys[source];
        merged_places[n] = places[source];
        i += select(0u, 1u, from_left);
        j += select(1u, 0u, from_left);
    }
    workgroupBarrier();
    for (var n = 0u; n < 4u; n++) {
        keys[target_place + n] = merged_keys[n];
        places[target_place + n] = merged_places[n];
    }
    workgroupBarrier();
}

// One call of `merge` for each doubling, written out: barriers in loops have been miscompiled.
//@slot rounds
fn rounds(thread: u32) {
    merge(thread, 4u);
    merge(thread, 8u);
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let work = group.y * groups_x() + group.x;
    if (work >= work_count()) {
        return;
    }
    let first = work % runs_per_row() * RUN;
    let count = min(RUN, row_length() - first);
    let row = work / runs_per_row() * row_length();
    // What lies behind the row's end has the largest key and comes last, so it stays last.
    for (var n = thread; n < RUN; n += THREADS) {
        var key = 0xffffffffu;
        if (n < count) {
            key = load_key(row + first + n);
        }
        keys[n] = key;
        places[n] = first + n;
    }
    workgroupBarrier();
    let own = thread * 4u;
    order(own);
    order(own + 2u);
    order(own + 1u);
    order(own);
    order(own + 2u);
    order(own + 1u);
    workgroupBarrier();
    rounds(thread);
    for (var n = thread; n < count; n += THREADS) {
        store_pair(row + first + n, keys[n], places[n]);
    }
}
