//! How the threads of a workgroup bring a piece of an operand into workgroup memory: four elements each at a time.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::space::{Expr, unravel};
use crate::plan::ContractKernel;

use super::lanes::{Wide, operand_lanes};
use super::operand::Operand;
use super::points::{inner_coordinates, point_coordinates};
use super::{ALL_LANES, BATCH, ROWS};

/// The function that reads an operand by fours.
pub(super) struct Fetch {
    /// `left` or `right`; the function is `load_left` or `load_right`.
    pub name: &'static str,
    /// Its text, and that of what it calls.
    pub text: String,
    /// Whether fours are numbered along k first; if not, along rows or columns.
    pub along_k: bool,
}

/// Which four elements a thread brings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fours {
    /// Those that are neighbours in memory.
    Lying,
    /// Of neighbouring rows or columns, wherever they lie.
    OfPoints,
    /// The same, read together where they are neighbours in memory.
    OfLyingPoints,
}

/// `fn load_left(batch, first, step, number) -> Sum`: the elements of four number `number` of a piece of `points` rows
/// (or columns, for the other side) from `first` on and `step_size` values of k. Where k lies along memory, fours are
/// numbered along k first, so that neighbouring threads read neighbours; elsewhere along rows first. Behind the last
/// value of k they are zero; there is no step behind the last one, and at least one value of k. `inside`: no piece
/// reaches behind the last row (or column).
pub(super) fn fetch(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    side: usize,
    [points, step_size]: [usize; 2],
    inside: bool,
    of: Fours,
) -> Result<Fetch> {
    let [_, rows, columns, inner] = kernel.sizes();
    let (tape, name, count) = match side {
        ROWS => (&kernel.lhs.0, "left", rows),
        _ => (&kernel.rhs.0, "right", columns),
    };
    let lying = operand_lanes(kernel, tape, side).unwrap_or(Wide::Points);
    let along_k = lying == Wide::Inner;
    let wide = match of {
        Fours::OfPoints => Wide::Points,
        Fours::OfLyingPoints if lying != Wide::Outer => Wide::Points,
        _ => lying,
    };
    debug_assert!(inner > 0, "the first step is there in any case");
    let operand = Operand::new(module, kernel, name, side, wide)?;
    let whole_steps = inner.is_multiple_of(step_size);
    let mut unless = |known: bool, number: usize| if known { String::new() } else { module.number(number as u64) };
    let (inner_text, count_text) = (unless(whole_steps, inner), unless(inside, count));
    let mut load = String::new();
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch = unravel(module, &Expr::scalar("batch"), &batch_axes, "b", &mut load);
    let value = operand.call("s", "k");
    // Behind the last value of k: of a sum of -0 both kinds of zero would make +0, while one of each leaves every sum
    // as it is, as where nothing is added.
    let empty = if side == ROWS && kernel.accumulator.is_float() { "Sum(-0.0)" } else { "Sum()" };
    if wide == Wide::Inner {
        // Threads of a row are neighbours.
        let fours = step_size / 4;
        let _ = writeln!(load, "    let own = first + number / {fours}u;");
        let _ = writeln!(load, "    let k = step * {step_size}u + number % {fours}u * 4u;");
        let coordinates = point_coordinates(module, kernel, side, (wide, inside), "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, ALL_LANES, "s", &mut load);
        let position = if whole_steps { "k / 4u".into() } else { format!("min(k, {inner_text} - 4u) / 4u") };
        let coordinates = inner_coordinates(module, kernel, &position, 4, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        let conditions = [(!inside, format!("own < {count_text}")), (!whole_steps, format!("k < {inner_text}"))];
        let conditions: Vec<String> =
            conditions.into_iter().filter_map(|(needed, text)| needed.then_some(text)).collect();
        let _ = match conditions.as_slice() {
            [] => writeln!(load, "    return {value};"),
            _ => writeln!(load, "    return select({empty}, {value}, {});", conditions.join(" && ")),
        };
    } else {
        let (fours, k) = match along_k {
            true => (format!("number / {step_size}u"), format!("number % {step_size}u")),
            false => (format!("number % {}u", points / 4), format!("number / {}u", points / 4)),
        };
        let _ = writeln!(load, "    let own = first + {fours} * 4u;");
        let _ = writeln!(load, "    let k = step * {step_size}u + {k};");
        let coordinates = point_coordinates(module, kernel, side, (wide, inside), "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, ALL_LANES, "s", &mut load);
        let position = if whole_steps { "k".into() } else { format!("min(k, {inner_text} - 1u)") };
        let coordinates = inner_coordinates(module, kernel, &position, 1, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        // Rows behind the last one repeat it, and their results are left out.
        let _ = match whole_steps {
            true => writeln!(load, "    return {value};"),
            false => writeln!(load, "    return select({empty}, {value}, k < {inner_text});"),
        };
    }
    let text = format!(
        "{}fn load_{name}(batch: u32, first: u32, step: u32, number: u32) -> Sum {{\n{load}}}\n\n",
        operand.text
    );
    Ok(Fetch { name, text, along_k })
}
