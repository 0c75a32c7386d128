// Counts a submission whose work was done, behind the word of `status` that kernels write to.

@group(0) @binding(0) var<storage, read_write> status: array<atomic<u32>, 4>;

@compute @workgroup_size(1)
fn main() {
    atomicAdd(&status[1], 1u);
}
