// Copies bytes between any two places: neither offset nor length has to be a multiple of 4, as copies of buffers
// demand. One invocation owns one word of the destination and leaves its other bytes as they are.

// (first source byte, first destination byte, bytes, unused), counted from the start of each window
@group(0) @binding(2) var<uniform> span: vec4<u32>;
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> destination: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let word = span.y / 4u + id.x;
    if word * 4u >= span.y + span.z {
        return;
    }
    var value = destination[word];
    for (var lane = 0u; lane < 4u; lane++) {
        let at = word * 4u + lane;
        if at >= span.y && at < span.y + span.z {
            let first = span.x + (at - span.y);
            let byte = (source[first / 4u] >> (first % 4u * 8u)) & 0xffu;
            value = (value & ~(0xffu << (lane * 8u))) | (byte << (lane * 8u));
        }
    }
    destination[word] = value;
}
