// Whether shuffles within subgroups join what the invocations of a workgroup have as workgroup memory does: in the
// order of the tree, which shows in the result, as what is tried is neither associative nor commutative.

// How many invocations have the right result.
@group(0) @binding(0) var<storage, read_write> right_results: array<atomic<u32>>;

fn joined(a: u32, b: u32) -> u32 {
    return 29u * (a ^ (a >> 5u)) + b;
}

var<workgroup> parts: array<u32, THREADS>;

//@slot trees
const THREADS: u32 = 8u;
const LANES: u32 = 4u;

fn in_memory(thread: u32) -> u32 {
    workgroupBarrier();
    if (thread < 4u) {
        parts[thread] = joined(parts[thread], parts[thread + 4u]);
    }
    workgroupBarrier();
    let whole = joined(joined(parts[0], parts[2]), joined(parts[1], parts[3]));
    workgroupBarrier();
    return whole;
}

fn shuffled(thread: u32, lane: u32) -> u32 {
    workgroupBarrier();
    var part = joined(parts[lane], parts[lane + 4u]);
    part = joined(part, subgroupShuffleXor(part, 2u));
    part = joined(part, subgroupShuffleXor(part, 1u));
    return subgroupShuffle(part, 0u);
}
//@end

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32) {
    let part = 7u * thread * thread + thread;
    parts[thread] = part;
    let expected = in_memory(thread);
    parts[thread] = part;
    if (shuffled(thread, lane % LANES) == expected) {
        atomicAdd(&right_results[0], 1u);
    }
}
