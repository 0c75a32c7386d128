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
}

/// `fn load_left(batch, first, step, number) -> Sum`: the elements of four number `number` of a piece of `points` rows (or
/// columns, for the other side) from `first` on and `step_size` values of k. Where k lies along memory, fours are numbered
/// along k first, so that neighbouring threads read neighbours; elsewhere along rows first. Behind the last value of k they
/// are zero.
pub(super) fn fetch(
    module: &mut Module<'_>,
    kernel: &ContractKernel,
    side: usize,
    [points, step_size]: [usize; 2],
    of: Fours,
) -> Result<Fetch> {
    let [_, rows, columns, inner] = kernel.sizes();
    let (tape, name, count) = match side {
        ROWS => (&kernel.lhs.0, "left", rows),
        _ => (&kernel.rhs.0, "right", columns),
    };
    let lying = operand_lanes(kernel, tape, side).unwrap_or(Wide::Points);
    let along_k = lying == Wide::Inner;
    let wide = if of == Fours::OfPoints { Wide::Points } else { lying };
    let operand = Operand::new(module, kernel, name, side, wide)?;
    let inner_text = module.number(inner as u64);
    let count_text = module.number(count as u64);
    let mut load = String::new();
    let batch_axes = kernel.axes[kernel.group(BATCH)].to_vec();
    let batch = unravel(module, &Expr::scalar("batch"), &batch_axes, "b", &mut load);
    let value = operand.call("s", "k");
    // for pieces of tiles outside of the operands
    let empty = "Sum()";
    if wide == Wide::Inner {
        // Threads of a row are neighbours.
        let fours = step_size / 4;
        let _ = writeln!(load, "    let own = first + number / {fours}u;");
        let _ = writeln!(load, "    let k = step * {step_size}u + number % {fours}u * 4u;");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, ALL_LANES, "s", &mut load);
        let position = format!("min(k, {inner_text} - 4u) / 4u");
        let coordinates = inner_coordinates(module, kernel, &position, 4, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        let _ = writeln!(load, "    let inside = own < {count_text} && k < {inner_text};");
        let _ = writeln!(load, "    return select({empty}, {value}, inside);");
    } else {
        let (fours, k) = match along_k {
            true => (format!("number / {step_size}u"), format!("number % {step_size}u")),
            false => (format!("number % {}u", points / 4), format!("number / {}u", points / 4)),
        };
        let _ = writeln!(load, "    let own = first + {fours} * 4u;");
        let _ = writeln!(load, "    let k = step * {step_size}u + {k};");
        let coordinates = point_coordinates(module, kernel, side, wide, "own", "m", &mut load);
        operand.still(module, kernel, &batch, &coordinates, ALL_LANES, "s", &mut load);
        let position = format!("min(k, {inner_text} - 1u)");
        let coordinates = inner_coordinates(module, kernel, &position, 1, "k", &mut load);
        operand.moving(module, kernel, &coordinates, "k", &mut load);
        // Rows behind the last one repeat it, and their results are left out.
        let _ = writeln!(load, "    return select({empty}, {value}, k < {inner_text});");
    }
    let text = format!(
        "{}fn load_{name}(batch: u32, first: u32, step: u32, number: u32) -> Sum {{\n{load}}}\n\n",
        operand.text
    );
    Ok(Fetch { name, text, along_k })
}
