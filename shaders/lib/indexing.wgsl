fn clamp_index_int(value: i32, bound: u32) -> i32 {
    return clamp(value, 0, bitcast<i32>(max(bound, 1u) - 1u));
}

fn clamp_index_uint(value: u32, bound: u32) -> u32 {
    return min(value, max(bound, 1u) - 1u);
}
