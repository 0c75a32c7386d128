// Discrete Fourier transforms along one axis: a workgroup has some lines of it in its memory and transforms them there,
// in place, by one radix after the other. Longer lines are transformed in several passes, whose results are twisted in
// between and written transposed at the end.

struct Params {
    // points of a line, and how it is divided: radices by 8 bits, the first lowest
    n: u32,
    stages: u32,
    radices_low: u32,
    radices_high: u32,
    // lines in all and of a workgroup; the size of the axes behind, adjacent lines
    lines: u32,
    tile: u32,
    inner: u32,
    // points of all passes together, and elements between two of those
    whole: u32,
    split: u32,
    // elements that are there to be read for each value of the axes before; behind them are zeros
    read: u32,
    // points that are written, and what passes before left of the axis: number k is (k · second + b) · first + a there
    written: u32,
    first: u32,
    second: u32,
    flags: u32,
    // a quarter of π over `n`, and over `whole`
    step: f32,
    whole_step: f32,
    scale: f32,
}

@group(0) @binding(0) var<storage, read> re: array<f32>;
@group(0) @binding(1) var<storage, read> im: array<f32>;
@group(0) @binding(2) var<storage, read_write> re_out: array<f32>;
@group(0) @binding(3) var<storage, read_write> im_out: array<f32>;
@group(0) @binding(4) var<uniform> params: Params;

const THREADS: u32 = 256u;
const POINTS: u32 = 2048u;
const LARGEST: u32 = 31u;

const REAL: u32 = 1u;
const MIRRORED: u32 = 2u;
const TO_REAL: u32 = 4u;
const INVERSE: u32 = 8u;
const TWISTED: u32 = 16u;

var<workgroup> points: array<vec2f, POINTS>;

fn is(flag: u32) -> bool {
    return (params.flags & flag) != 0u;
}

fn product(a: vec2f, b: vec2f) -> vec2f {
    return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// a / b for numbers within a workgroup's memory, by way of floats: integers are divided slowly.
fn quotient(a: u32, b: u32) -> u32 {
    return u32((f32(a) + 0.5) / f32(b));
}

// exp(-2πi · part / whole) for a part below the whole; `step` is a quarter of π over the whole. Octants are taken off in
// integers, so that it is exact to a rounding, whatever a driver's sine is; one octant too many or too few leaves an
// angle that is hardly larger, or below zero.
fn root(part: u32, whole: u32, step: f32) -> vec2f {
    let octant = u32(f32(part) * (step * 10.185916357881302));
    let rest = i32(8u * part) - i32(octant * whole);
    let angle = step * f32(select(rest, i32(whole) - rest, (octant & 1u) == 1u));
    let square = angle * angle;
    let sine = angle * (1.0 + square * (-1.0 / 6.0 + square * (1.0 / 120.0 + square * (-1.0 / 5040.0 + square / 362880.0))));
    let cosine = 1.0
        + square * (-0.5 + square * (1.0 / 24.0 + square * (-1.0 / 720.0 + square * (1.0 / 40320.0 - square / 3628800.0))));
    let swapped = ((octant + 1u) & 2u) != 0u;
    let at = vec2f(select(cosine, sine, swapped), select(sine, cosine, swapped));
    return vec2f(select(at.x, -at.x, ((octant + 2u) & 4u) != 0u), select(at.y, -at.y, (octant & 4u) == 0u));
}

fn radix_of(stage: u32) -> u32 {
    return (select(params.radices_low, params.radices_high, stage > 3u) >> (8u * (stage & 3u))) & 255u;
}

// Adjacent lines lie adjacent where that is how they lie in memory.
fn place(point: u32, line: u32) -> u32 {
    return select(line * params.n + point, point * params.tile + line, params.inner > 1u);
}

// Point and line of an element, so that threads which follow each other read what lies together.
fn element(number: u32, count: u32, by_line: bool) -> vec2u {
    if (by_line) {
        let point = quotient(number, params.tile);
        return vec2u(point, number - point * params.tile);
    }
    let line = quotient(number, count);
    return vec2u(number - line * count, line);
}

fn taken(point: u32, line: u32) -> vec2f {
    let before = line / params.inner;
    var offset = point * params.inner + line - before * params.inner;
    var mirrored = false;
    var at_an_end = false;
    if (is(MIRRORED)) {
        let number = offset / params.split;
        mirrored = 2u * number > params.whole;
        at_an_end = number == 0u || 2u * number == params.whole;
        if (mirrored) {
            offset += (params.whole - 2u * number) * params.split;
        }
    }
    if (offset >= params.read) {
        return vec2f();
    }
    let address = before * params.read + offset;
    if (is(REAL)) {
        return vec2f(re[address], 0.0);
    }
    let imaginary = select(im[address], 0.0, at_an_end);
    return vec2f(re[address], select(imaginary, -imaginary, mirrored != is(INVERSE)));
}

fn put(value: vec2f, point: u32, line: u32) {
    var before = line / params.inner;
    let index = line - before * params.inner;
    var number = point;
    if (params.first * params.second > 1u) {
        let a = before / params.second;
        let block = a / params.first;
        number = (point * params.second + before - a * params.second) * params.first + a - block * params.first;
        before = block;
    }
    if (number >= params.written) {
        return;
    }
    var result = value;
    if (is(TWISTED)) {
        result = product(value, root(point * (index / params.split), params.whole, params.whole_step));
    }
    result *= params.scale;
    let address = (before * params.written + number) * params.inner + index;
    re_out[address] = result.x;
    if (!is(TO_REAL)) {
        im_out[address] = select(result.y, -result.y, is(INVERSE));
    }
}

// Where the result number `point` is after all stages: its digits are in reverse order.
fn found(point: u32) -> u32 {
    var rest = point;
    var size = params.n;
    var position = 0u;
    for (var stage = 0u; stage < params.stages; stage++) {
        let radix = radix_of(stage);
        size = quotient(size, radix);
        let more = quotient(rest, radix);
        position += (rest - more * radix) * size;
        rest = more;
    }
    return position;
}

// A radix's transform of points `step` apart, each result turned by its number times `turn`.
struct Butterfly {
    start: u32,
    step: u32,
    turn: u32,
    line: u32,
}

fn load(at: Butterfly, number: u32) -> vec2f {
    return points[place(at.start + number * at.step, at.line)];
}

fn store_first(at: Butterfly, value: vec2f) {
    points[place(at.start, at.line)] = value;
}

fn store(at: Butterfly, number: u32, value: vec2f) {
    let turned = product(value, root(number * at.turn, params.n, params.step));
    points[place(at.start + number * at.step, at.line)] = turned;
}

fn by_two(at: Butterfly) {
    let a = load(at, 0u);
    let b = load(at, 1u);
    store_first(at, a + b);
    store(at, 1u, a - b);
}

fn by_three(at: Butterfly) {
    let a = load(at, 0u);
    let b = load(at, 1u);
    let c = load(at, 2u);
    let sum = b + c;
    let middle = a - 0.5 * sum;
    let difference = 0.8660254037844386 * (b - c);
    let turned = vec2f(difference.y, -difference.x);
    store_first(at, a + sum);
    store(at, 1u, middle + turned);
    store(at, 2u, middle - turned);
}

fn by_four(at: Butterfly) {
    let a = load(at, 0u);
    let b = load(at, 1u);
    let c = load(at, 2u);
    let d = load(at, 3u);
    let even = a + c;
    let even_other = a - c;
    let odd = b + d;
    let odd_other = vec2f(b.y - d.y, d.x - b.x);
    store_first(at, even + odd);
    store(at, 1u, even_other + odd_other);
    store(at, 2u, even - odd);
    store(at, 3u, even_other - odd_other);
}

fn by_five(at: Butterfly) {
    let a = load(at, 0u);
    let b = load(at, 1u);
    let c = load(at, 2u);
    let d = load(at, 3u);
    let e = load(at, 4u);
    let near = b + e;
    let far = c + d;
    let near_other = b - e;
    let far_other = c - d;
    // cosines and sines of a fifth of a turn and of two
    let one = a + 0.30901699437494745 * near - 0.8090169943749475 * far;
    let two = a - 0.8090169943749475 * near + 0.30901699437494745 * far;
    let one_other = 0.9510565162951535 * near_other + 0.5877852522924731 * far_other;
    let two_other = 0.5877852522924731 * near_other - 0.9510565162951535 * far_other;
    let one_turned = vec2f(one_other.y, -one_other.x);
    let two_turned = vec2f(two_other.y, -two_other.x);
    store_first(at, a + near + far);
    store(at, 1u, one + one_turned);
    store(at, 2u, two + two_turned);
    store(at, 3u, two - two_turned);
    store(at, 4u, one - one_turned);
}

// By the definition, for primes that have no form of their own.
fn by(radix: u32, at: Butterfly) {
    var inputs: array<vec2f, LARGEST>;
    var roots: array<vec2f, LARGEST>;
    let step = 0.7853981633974483 / f32(radix);
    for (var number = 0u; number < radix; number++) {
        inputs[number] = load(at, number);
        roots[number] = root(number, radix, step);
    }
    for (var result = 0u; result < radix; result++) {
        var sum = vec2f();
        var turned = 0u;
        for (var number = 0u; number < radix; number++) {
            sum += product(inputs[number], roots[turned]);
            turned += result;
            turned -= select(0u, radix, turned >= radix);
        }
        store(at, result, sum);
    }
}

fn transform(thread: u32) {
    var size = params.n;
    for (var stage = 0u; stage < params.stages; stage++) {
        workgroupBarrier();
        let radix = radix_of(stage);
        let step = size / radix;
        let turn = params.n / size;
        let butterflies = params.n / radix;
        for (var number = thread; number < butterflies * params.tile; number += THREADS) {
            let found = element(number, butterflies, params.inner > 1u);
            let block = quotient(found.x, step);
            let within = found.x - block * step;
            let at = Butterfly(block * size + within, step, within * turn, found.y);
            switch radix {
                case 2u: { by_two(at); }
                case 3u: { by_three(at); }
                case 4u: { by_four(at); }
                case 5u: { by_five(at); }
                default: { by(radix, at); }
            }
        }
        size = step;
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * params.tile;
    let elements = params.n * params.tile;
    for (var number = thread; number < elements; number += THREADS) {
        let at = element(number, params.n, params.inner > 1u);
        let line = first + at.y;
        if (line < params.lines) {
            points[place(at.x, at.y)] = taken(at.x, line);
        }
    }
    transform(thread);
    let by_line = params.inner * params.first * params.second > 1u;
    // where points follow each other, those that nobody wants come last
    let count = select(min(params.n, params.written), params.n, by_line);
    for (var number = thread; number < count * params.tile; number += THREADS) {
        let at = element(number, count, by_line);
        let line = first + at.y;
        if (line < params.lines) {
            put(points[place(found(at.x), at.y)], at.x, line);
        }
    }
}
