// Index arithmetic runs on u32 bits that wrap; a value that may be negative is read as i32.

// Quotient rounded towards negative infinity; `by` is positive and below 2^31.
fn floor_div(x: u32, by: u32) -> u32 {
    let value = bitcast<i32>(x);
    let low = select(0, 1, value < 0);
    return bitcast<u32>((value + low) / bitcast<i32>(by) - low);
}

fn floor_div_4(x: vec4u, by: u32) -> vec4u {
    let value = bitcast<vec4i>(x);
    let low = select(vec4i(0), vec4i(1), value < vec4i(0));
    return bitcast<vec4u>((value + low) / vec4i(bitcast<i32>(by)) - low);
}

// Remainder in 0..by.
fn floor_mod(x: u32, by: u32) -> u32 {
    return x - floor_div(x, by) * by;
}

fn floor_mod_4(x: vec4u, by: u32) -> vec4u {
    return x - floor_div_4(x, by) * by;
}

fn clamp_index_int(value: i32, bound: u32) -> i32 {
    return clamp(value, 0, bitcast<i32>(max(bound, 1u) - 1u));
}

fn clamp_index_uint(value: u32, bound: u32) -> u32 {
    return min(value, max(bound, 1u) - 1u);
}
