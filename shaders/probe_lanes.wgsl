// Whether a workgroup of as many invocations as a subgroup has lanes is one subgroup, whose lanes hand each other what
// they have as contract_subgroups.wgsl wants it: any of a part of them, in numbers and in vectors.

// How many invocations have the right results.
@group(0) @binding(0) var<storage, read_write> right_results: array<atomic<u32>>;

//@slot lanes
const LANES: u32 = 8u;
//@end

fn value(lane: u32) -> f32 {
    return f32(lane * lane + 3u) / 16.0;
}

fn values(lane: u32) -> vec4f {
    return value(lane) + vec4f(0.0, 0.25, 0.5, 0.75);
}

@compute @workgroup_size(LANES)
fn main(@builtin(subgroup_invocation_id) lane: u32) {
    var right = lane < LANES;
    for (var sharing = 2u; sharing <= LANES; sharing *= 2u) {
        let first = lane - lane % sharing;
        for (var n = 0u; n < sharing; n++) {
            let other = first + n;
            let number = subgroupShuffle(value(lane), other);
            let vector = subgroupShuffle(values(lane), other);
            right = right & (number == value(other)) & all(vector == values(other));
        }
    }
    if (right) {
        atomicAdd(&right_results[0], 1u);
    }
}
