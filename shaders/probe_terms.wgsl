// Whether f32 can be multiplied as sums of two terms by units for f16: conversions round to the nearest number,
// subnormal ones too, what is too large becomes infinite, and the units multiply subnormal numbers, in either operand.

//@slot types
enable f16;
enable wgpu_cooperative_matrix;
alias Element = f16;
alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Block = coop_mat8x8<f32, C>;
const SIZE: u32 = 8u;
const THREADS: u32 = 32u;
const MAX_SUBGROUPS: u32 = 4u;
fn low_term(x: vec4f, high: vec4f) -> vec4f {
    return (x - high) * 2048.0;
}
//@end

// How many elements came through.
@group(0) @binding(0) var<storage, read_write> right_results: array<atomic<u32>>;

// A factor of 1 that no compiler knows, as in the contractions.
var<private> one: Element;
// The smallest number of type f16, which is subnormal.
const LEAST: f32 = 1.0 / 16777216.0;

var<workgroup> high_terms: array<Element, SIZE * SIZE>;
var<workgroup> low_terms: array<Element, SIZE * SIZE>;
var<workgroup> diagonal: array<Element, SIZE * SIZE>;
var<workgroup> high_results: array<f32, MAX_SUBGROUPS * SIZE * SIZE>;
var<workgroup> low_results: array<f32, MAX_SUBGROUPS * SIZE * SIZE>;

// Numbers of all sizes from 2⁻³⁰ to 2¹⁵, of either sign.
fn number(at: u32) -> f32 {
    let exponent = 97u + at * 7u % 45u;
    let fraction = (at * 2654435761u + 1013904223u) >> 9u;
    return bitcast<f32>(((at & 1u) << 31u) | (exponent << 23u) | fraction);
}

fn is_infinite(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(subgroup_id) subgroup: u32) {
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        high_results[at] = 0.0;
    }
    workgroupBarrier();
    one = Element(1.0 + high_results[0]);
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        let high = vec4<Element>(vec4f(number(at))) * one;
        high_terms[at] = high.x;
        low_terms[at] = Element(low_term(vec4f(number(at)), vec4f(high)).x);
        diagonal[at] = Element(select(0.0, LEAST, at / SIZE == at % SIZE));
    }
    workgroupBarrier();
    let zeros = coopLoadT<Block>(&high_results[0], SIZE);
    let right = coopLoadT<Right>(&diagonal[0], SIZE);
    let high_sum = coopMultiplyAdd(coopLoadT<Left>(&high_terms[0], SIZE), right, zeros);
    let low_sum = coopMultiplyAdd(coopLoadT<Left>(&low_terms[0], SIZE), right, zeros);
    workgroupBarrier();
    coopStoreT(high_sum, &high_results[subgroup * SIZE * SIZE], SIZE);
    coopStoreT(low_sum, &low_results[subgroup * SIZE * SIZE], SIZE);
    workgroupBarrier();
    for (var at = thread; at < SIZE * SIZE; at += THREADS) {
        let high = f32(high_terms[at]);
        let low = f32(low_terms[at]);
        let lost = abs(number(at) - high - low * (1.0 / 2048.0));
        let kept = lost <= max(abs(number(at)) * (1.0 / 8388608.0), LEAST * (1.0 / 4096.0));
        let multiplied = high_results[at] == high * LEAST && low_results[at] == low * LEAST;
        let too_large = is_infinite(f32(Element(65520.0 * f32(at + 1u)) * one));
        if (kept && multiplied && too_large) {
            atomicAdd(&right_results[0], 1u);
        }
    }
}
