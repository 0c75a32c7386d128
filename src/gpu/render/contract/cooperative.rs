//! Contractions by units that multiply small matrices together with a whole subgroup (tensor cores, simdgroup
//! matrices).
//!
//! Operands of type f16 are multiplied exactly and summed in f32, as everywhere else; only the order of the sums within
//! a small matrix is the unit's own. Each value that is read from workgroup memory is used for as many results as a
//! subgroup's part has rows or columns: 32 or 64, where threads that multiply by themselves have 4 or 8.
//!
//! Units that know f16 only multiply f32 on request as sums of two terms ([`MatmulPrecision::High`], which has the
//! error): the low one is scaled, so that it does not underflow before the high one does, and its products have sums of
//! their own.

use std::fmt::{self, Write as _};

use crate::dtype::DType;
use crate::error::Result;
use crate::gpu::render::library::{fill, link};
use crate::gpu::render::module::Module;
use crate::gpu::render::{Capabilities, Launch};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::{ContractKernel, Tape, ValueId};

use super::epilogue::finish_inside;
use super::fetch::{Fetch, Fours, fetch};
use super::points::tile_grid;
use super::{COLUMNS, LANES, ROWS};

/// Units of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Units {
    /// Invocations of the smallest and the largest subgroup.
    pub subgroups: [usize; 2],
    /// Rows and columns of matrices of f16 whose products are summed in f32.
    pub f16: Option<usize>,
    /// Rows and columns of matrices of f32.
    pub f32: Option<usize>,
    /// Whether those of f16 may multiply terms of f32: nothing is lost to conversions that truncate or to subnormals.
    pub terms: bool,
}

impl Units {
    /// Whether products of f32 go to them at this precision, and at the highest do not.
    pub(crate) fn splits(self) -> bool {
        self.f16.is_some() && self.f32.is_none() && self.terms
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [("f16", self.f16), ("f32", self.f32)];
        let kinds = kinds.into_iter().filter_map(|(name, size)| size.map(|size| format!("{size}x{size} {name}")));
        f.write_str(&kinds.collect::<Vec<_>>().join(", "))
    }
}

/// How a workgroup shares its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile {
    /// Rows and columns of its results.
    sides: [usize; 2],
    /// Rows and columns of a subgroup's part.
    part: [usize; 2],
    /// Values of k in one step.
    step: usize,
    /// Rows and columns of the unit's matrices.
    size: usize,
    /// Elements of the unit's operands have so many bytes.
    element_bytes: usize,
    /// Of so many of them an operand is the sum.
    terms: usize,
    threads: usize,
    /// Subgroups, if they are as small as they may be.
    most_subgroups: usize,
}

/// Where in the results' memory those of the low terms' products begin.
const LOW_RESULTS: &str = "MAX_SUBGROUPS * SIZE * SIZE";

/// A factor of 1 that no compiler knows: Mesa's takes `f32(f16(x))` for x, and nothing would be left for the low term.
const ONE: &str = "var<private> one: Element;\n";

/// Elements between the end of a row in workgroup memory and the next one.
const GAP: usize = 8;

impl Tile {
    fn parts(self) -> usize {
        (self.sides[0] / self.part[0]) * (self.sides[1] / self.part[1])
    }

    /// Elements from one line of a tile to the next, and of the whole tile.
    fn pitch_and_length(self, side: usize, along_k: bool) -> [usize; 2] {
        let (line, lines) = if along_k { (self.step, self.sides[side]) } else { (self.sides[side], self.step) };
        [line + GAP, (line + GAP) * lines]
    }

    /// Bytes of workgroup memory, whichever way the operands lie.
    fn bytes(self) -> usize {
        let length = |side| [true, false].map(|along_k| self.pitch_and_length(side, along_k)[1]).into_iter().max();
        let operands = (0..2).filter_map(length).sum::<usize>() * self.element_bytes;
        self.terms * (operands + 4 * self.most_subgroups * self.size * self.size)
    }

    /// Whether an operand is the sum of two terms.
    fn is_split(self) -> bool {
        self.terms == 2
    }

    /// The type of a four on its way to workgroup memory, where it is split.
    fn brought(self) -> &'static str {
        if self.is_split() { "Sum" } else { "vec4<Element>" }
    }

    /// Fours that a thread brings in a step.
    fn fours(self, side: usize) -> usize {
        self.sides[side] * self.step / 4 / self.threads
    }
}

/// The way to do it on this adapter, if there is one.
pub(super) fn tile(caps: &Capabilities, kernel: &ContractKernel) -> Option<Tile> {
    let units = caps.cooperative?;
    if kernel.accumulator != DType::F32 {
        return None;
    }
    let half = |(tape, value): &(Tape, ValueId)| tape.instrs[*value].dtype == DType::F16;
    let split = kernel.precision == MatmulPrecision::High && units.splits();
    let (size, element_bytes, terms) = match (half(&kernel.lhs) && half(&kernel.rhs), units.f16, units.f32) {
        (true, Some(size), _) if caps.f16 => (size, 2, 1),
        (_, _, Some(size)) => (size, 4, 1),
        (false, Some(size), None) if caps.f16 && split => (size, 2, 2),
        _ => return None,
    };
    let [_, _, _, inner] = kernel.sizes();
    let step = if inner >= 64 { 32 } else { 16 };
    let shape = |sides, part, step| {
        let tile = Tile { sides, part, step, size, element_bytes, terms, threads: 0, most_subgroups: 0 };
        let threads = tile.parts() * units.subgroups[1];
        Tile { threads, most_subgroups: threads / units.subgroups[0].max(1), ..tile }
    };
    let possible = |tile: &Tile| {
        tile.threads <= caps.max_workgroup_invocations as usize
            && tile.bytes() <= caps.max_workgroup_bytes as usize
            && (0..2).all(|side| (tile.sides[side] * tile.step / 4).is_multiple_of(tile.threads))
    };
    // Two terms take twice the registers and twice the memory. On an H100 f16 of 4096x4096 takes 0.87 ms with parts of
    // 64x32 and 0.49 with 64x64, which are 128 registers of sums in 32 lanes: too many for Apple's, whose matrices are
    // smaller.
    let (sides, part) = match (terms, size) {
        (1, 16..) => ([128, 128], [64, 64]),
        (1, _) => ([128, 128], [64, 32]),
        _ => ([128, 64], [32, 32]),
    };
    let large = [step, 16].map(|step| shape(sides, part, step));
    let small = [step, 16].map(|step| shape([64, 64], [32, 32], step));
    let large = large.into_iter().find(|tile| possible(tile) && large_tiles_pay(caps, kernel, tile.sides));
    large.or_else(|| small.into_iter().find(possible))
}

/// Whether a workgroup may have so many rows and columns of results, more than 64 by 64: enough workgroups are left,
/// and at most an eighth more results are computed.
fn large_tiles_pay(caps: &Capabilities, kernel: &ContractKernel, sides: [usize; 2]) -> bool {
    let [batch, rows, columns, _] = kernel.sizes();
    let tiles = |[r, c]: [usize; 2]| batch * rows.div_ceil(r) * columns.div_ceil(c);
    let padded = |sides: [usize; 2]| tiles(sides) * sides[0] * sides[1];
    tiles(sides) >= caps.busy_groups && 8 * padded(sides) <= 9 * padded([64, 64])
}

/// One tile for each workgroup.
pub(super) fn render(mut module: Module<'_>, kernel: &ContractKernel, tile: Tile) -> Result<Launch> {
    // without conditions there are fewer values to keep, and the sums alone take half of all registers
    let [_, rows, columns, _] = kernel.sizes();
    let [rows_inside, columns_inside] = [(rows, 0), (columns, 1)].map(|(n, side)| n.is_multiple_of(tile.sides[side]));
    let left = fetch(&mut module, kernel, ROWS, [tile.sides[0], tile.step], rows_inside, Fours::Lying)?;
    let right = fetch(&mut module, kernel, COLUMNS, [tile.sides[1], tile.step], columns_inside, Fours::Lying)?;
    let mut compute = String::new();
    for (side, fetch) in [&left, &right].into_iter().enumerate() {
        compute.push_str(&fetch.text);
        compute.push_str(&place(fetch, tile, side));
    }
    compute.push_str(&finish_inside(&mut module, kernel)?);
    let (grid, groups) = tile_grid(&mut module, kernel, tile.sides, tile.step)?;
    let types = types(tile, left.along_k, right.along_k);
    let [begin, place, ahead, products, results] = body(tile, [&left, &right]);
    let sum = sum(tile);
    if tile.element_bytes == 2 {
        module.use_f16();
    }
    let slots = [
        ("extensions", "enable wgpu_cooperative_matrix;\n"),
        ("grid", grid.as_str()),
        ("types", &types),
        ("compute", &compute),
        ("sum", &sum),
        ("begin", &begin),
        ("place", &place),
        ("ahead", &ahead),
        ("products", &products),
        ("results", &results),
    ];
    module.finish("contract_cooperative.wgsl", &slots, groups)
}

/// The names of an element's type and of the unit's matrices.
fn matrices(size: usize, half: bool) -> String {
    let element = if half { "f16" } else { "f32" };
    let mut text = format!("alias Element = {element};\n");
    for (name, element, role) in [("Left", element, 'A'), ("Right", element, 'B'), ("Block", "f32", 'C')] {
        let _ = writeln!(text, "alias {name} = coop_mat{size}x{size}<{element}, {role}>;");
    }
    text
}

/// Parts of the results, each by a subgroup, in a trial of units.
const TRIED_PARTS: usize = 2;

/// A kernel that tries units of one size and type, and how many results it has.
pub(crate) fn probe_text(size: usize, half: bool, subgroups: [usize; 2]) -> (String, usize) {
    let types = probe_types(size, half, subgroups, TRIED_PARTS);
    (fill("probe_units.wgsl", &[("types", &types)]), TRIED_PARTS * size * size)
}

/// A kernel that tries what [`MatmulPrecision::High`] relies on with units for f16.
pub(crate) fn probe_terms_text(size: usize, subgroups: [usize; 2]) -> String {
    let mut text = fill("probe_terms.wgsl", &[("types", &probe_types(size, true, subgroups, 1))]);
    link(&mut text);
    text
}

/// The types and sizes of a probe.
fn probe_types(size: usize, half: bool, [least, most]: [usize; 2], parts: usize) -> String {
    let f16 = if half { "enable f16;\n" } else { "" };
    let matrices = matrices(size, half);
    format!(
        "{f16}enable wgpu_cooperative_matrix;\n{matrices}const SIZE: u32 = {size}u;\nconst THREADS: u32 = {}u;\n\
         const PARTS: u32 = {parts}u;\nconst MAX_SUBGROUPS: u32 = {}u;\n",
        parts * most,
        parts * most / least.max(1)
    )
}

fn types(tile: Tile, left_along_k: bool, right_along_k: bool) -> String {
    let mut text = format!("alias Sum = vec4f;\n{}", matrices(tile.size, tile.element_bytes == 2));
    let [left_pitch, left_length] = tile.pitch_and_length(0, left_along_k);
    let [right_pitch, right_length] = tile.pitch_and_length(1, right_along_k);
    for (name, value) in [
        ("SIZE", tile.size),
        ("ROWS", tile.sides[0]),
        ("COLUMNS", tile.sides[1]),
        ("STEP", tile.step),
        ("THREADS", tile.threads),
        ("PARTS", tile.parts()),
        ("TERMS", tile.terms),
        ("MAX_SUBGROUPS", tile.most_subgroups),
        ("PART_ROWS", tile.part[0]),
        ("PART_COLUMNS", tile.part[1]),
        ("LEFT_PITCH", left_pitch),
        ("LEFT_LENGTH", left_length),
        ("RIGHT_PITCH", right_pitch),
        ("RIGHT_LENGTH", right_length),
    ] {
        let _ = writeln!(text, "const {name}: u32 = {value}u;");
    }
    if tile.is_split() {
        text.push_str(ONE);
    }
    text
}

/// `place_left` or `place_right`.
fn place(fetch: &Fetch, tile: Tile, side: usize) -> String {
    let name = fetch.name;
    let fours = if fetch.along_k { tile.step } else { tile.sides[side] } / 4;
    let upper = name.to_uppercase();
    let mut text = format!(
        "fn place_{name}(number: u32, value: {}) {{\n    \
         let at = number / {fours}u * {upper}_PITCH + number % {fours}u * 4u;\n",
        tile.brought()
    );
    let put = |value: &str, start: &str| {
        let lanes = LANES.iter().enumerate();
        lanes.map(|(n, lane)| format!("    {name}_tile[{start}at + {n}u] = {value}.{lane};\n")).collect::<String>()
    };
    if tile.is_split() {
        text.push_str("    let high = vec4<Element>(value) * one;\n");
        text.push_str(&put("high", ""));
        text.push_str("    let low = vec4<Element>(low_term(value, Sum(high)));\n");
        text.push_str(&put("low", &format!("{upper}_LENGTH + ")));
    } else {
        text.push_str(&put("value", ""));
    }
    text.push_str("}\n\n");
    text
}

/// The four results that lie at `at`.
fn sum(tile: Tile) -> String {
    let four = |start: &str| format!("Sum({})", [0, 1, 2, 3].map(|n| format!("results[{start}at + {n}u]")).join(", "));
    let sum = if tile.is_split() {
        format!("sum_of_terms({}, {})", four(""), four(&format!("{LOW_RESULTS} + ")))
    } else {
        four("")
    };
    format!("        let sum = {sum};\n")
}

/// What `main` does for each four that a thread brings and each block that a subgroup adds up, written out so that all
/// of them stay in registers.
fn body(tile: Tile, operands: [&Fetch; 2]) -> [String; 5] {
    let [mut begin, mut place, mut ahead, mut products, mut results] = [const { String::new() }; 5];
    let blocks = [0, 1].map(|side| tile.part[side] / tile.size);
    for (side, first, value, kind) in [(0, "row", 'a', "Left"), (1, "column", 'b', "Right")] {
        let Fetch { name, along_k, .. } = *operands[side];
        for i in 0..tile.fours(side) {
            let number = format!("thread + {}u", i * tile.threads);
            let load = |step: &str| format!("{}(load_{name}(batch, {first}, {step}, {number}));", tile.brought());
            let _ = writeln!(begin, "    var {name}{i} = {}", load("0u"));
            let _ = writeln!(place, "        place_{name}({number}, {name}{i});");
            let _ = writeln!(ahead, "        {name}{i} = {}", load("next"));
        }
        // Rows of the left matrix and columns of the right one lie in lines where fours run along k.
        let transposed = if along_k == (side == 0) { "T" } else { "" };
        let upper = name.to_uppercase();
        let pitch = format!("{upper}_PITCH");
        for i in 0..blocks[side] {
            let point = format!("(part_{first} + {}u)", i * tile.size);
            let at = if along_k { format!("{point} * {pitch} + k") } else { format!("k * {pitch} + {point}") };
            let mut load = |value: String, at: &str| {
                let load = format!("coopLoad{transposed}<{kind}>(&{name}_tile[{at}], {pitch})");
                let _ = writeln!(products, "            let {value} = {load};");
            };
            load(format!("{value}{i}"), &at);
            if tile.is_split() {
                load(format!("{value}{i}_low"), &format!("{upper}_LENGTH + {at}"));
            }
        }
    }
    for (i, j) in (0..blocks[0]).flat_map(|i| (0..blocks[1]).map(move |j| (i, j))) {
        let (name, low) = (format!("sum{i}_{j}"), format!("low{i}_{j}"));
        let sums = [(&name, "first".to_owned()), (&low, format!("{LOW_RESULTS} + first"))];
        for (name, first) in &sums[..tile.terms] {
            let _ = writeln!(begin, "    var {name} = coopLoadT<Block>(&results[0], SIZE);");
            let _ = writeln!(results, "    coopStoreT({name}, &results[{first}], SIZE);");
        }
        let _ = writeln!(products, "            {name} = coopMultiplyAdd(a{i}, b{j}, {name});");
        if tile.is_split() {
            let _ = writeln!(products, "            {low} = coopMultiplyAdd(a{i}, b{j}_low, {low});");
            let _ = writeln!(products, "            {low} = coopMultiplyAdd(a{i}_low, b{j}, {low});");
        }
        let (row, column) = (i * tile.size, j * tile.size);
        let _ = write!(
            results,
            "    workgroupBarrier();\n    if (subgroup < PARTS) {{\n        \
             finish_block(batch, row + part_row + {row}u, column + part_column + {column}u, first, lane, lanes);\n    }}\n    \
             workgroupBarrier();\n"
        );
    }
    if tile.is_split() {
        begin.push_str("    one = Element(1.0 + results[0]);\n");
    }
    // all subgroups have read the zeros before the first result is written over them
    begin.push_str("    workgroupBarrier();\n");
    [begin, place, ahead, products, results]
}
