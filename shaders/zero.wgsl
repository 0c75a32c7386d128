// Writes zeros, one word per invocation; groups fold into the second dimension.

@group(0) @binding(0) var<storage, read_write> words: array<u32>;

const THREADS: u32 = 256u;

@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
    let word = id.y * groups.x * THREADS + id.x;
    if (word < arrayLength(&words)) {
        words[word] = 0u;
    }
}
