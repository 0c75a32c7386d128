//! Windows that slide along a line of results, as those of a convolution do: what neighbours share is read once.

use std::fmt::Write as _;

use crate::gpu::render::Capabilities;
use crate::gpu::render::module::Module;
use crate::gpu::render::rewrite::map_tape;
use crate::gpu::render::space::Expr;
use crate::plan::{Atom, ContractKernel, Ix, Tape};

use super::lanes::{Wide, operand_lanes};
use super::operand::Operand;
use super::points::point_coordinates;
use super::{ALL_LANES, COLUMNS, INNER, LANES};

/// Products of one step, above which its text takes long to compile: 3 places for 16 by 16 results.
const MAX_PRODUCTS: usize = 768;

/// A right operand that depends on the last axis of the columns and on that of k by their sum or difference alone:
/// `run` columns and `taps` places of the window need `run + taps - 1` values between them.
pub(super) struct Sliding {
    /// The size of k's last axis, all of which is one step.
    pub taps: usize,
    /// Columns that share what they read: all of the tile, or as many of them as never reach over the end of a line.
    run: usize,
    /// Whether a later place of the window reads an earlier value.
    backwards: bool,
    /// The kernel, with lines that end with a whole four.
    pub kernel: ContractKernel,
    /// How long lines are that did not.
    pub ragged: Option<usize>,
    /// The same with a window of one place and the line of all values that it reads.
    pub line: ContractKernel,
}

impl Sliding {
    /// What is shared in tiles of this size, if anything is.
    pub(super) fn of(
        caps: &Capabilities,
        kernel: &ContractKernel,
        [tile_rows, tile_columns]: [usize; 2],
    ) -> Option<Self> {
        let (column, place) = (kernel.group(COLUMNS).next_back()?, kernel.group(INNER).next_back()?);
        let (width, taps) = (kernel.axes[column], kernel.axes[place]);
        let small = taps > 1 && tile_rows * tile_columns * taps <= MAX_PRODUCTS;
        if !small || operand_lanes(kernel, &kernel.rhs.0, COLUMNS).is_some() {
            return None;
        }
        let whole = width.next_multiple_of(4);
        // of the results, so many eighths have to be some: software reads longer for less, where a GPU would compute in
        // vain
        if 8 * width < (if caps.software { 6 } else { 7 }) * whole {
            return None;
        }
        let backwards = direction(&kernel.rhs.0, column, place)? < 0;
        let mut kernel = kernel.clone();
        kernel.axes[column] = whole;
        let mut line = kernel.clone();
        line.axes[column] = (width + taps - 1).next_multiple_of(4);
        line.axes[place] = 1;
        let mut coordinates: Vec<Ix> = (0..line.axes.len()).map(Ix::axis).collect();
        coordinates[place] = Ix::constant(if backwards { taps as i64 - 1 } else { 0 });
        line.rhs.0 = map_tape(&kernel.rhs.0, &|ix| ix.substitute(&coordinates, &line.axes));
        // a run ends with its line
        let run = tile_columns.min(1 << whole.trailing_zeros());
        let ragged = (whole > width).then_some(width);
        Some(Self { taps, run, backwards, kernel, ragged, line })
    }

    /// Fours of values that a run needs, and how many of the last are used.
    fn fours(&self) -> (usize, usize) {
        let values = self.run + self.taps - 1;
        (values.div_ceil(4), (values - 1) % 4 + 1)
    }

    /// Statements for the parts of the operand's indices that do not change with k.
    pub(super) fn still(
        &self,
        module: &mut Module<'_>,
        right: &Operand,
        batch: &[Expr],
        tile_columns: usize,
        code: &mut String,
    ) {
        let (fours, used) = self.fours();
        for first in (0..tile_columns).step_by(self.run) {
            let prefix = format!("n{first}_");
            // a run behind the last column repeats the last one
            let columns = self.kernel.sizes()[COLUMNS];
            let start = if columns.is_multiple_of(tile_columns) {
                format!("column + {first}u")
            } else {
                format!("min(column + {first}u, {})", module.number((columns - self.run) as u64))
            };
            let points = point_coordinates(module, &self.kernel, COLUMNS, (Wide::Outer, false), &start, &prefix, code);
            for four in 0..fours {
                let mut points = points.clone();
                let place = &mut points.last_mut().expect("columns have an axis").text;
                if four > 0 {
                    *place = format!("({place} + {four}u)");
                }
                // what is not used may lie outside of the buffer: the last one that is stands in
                let lane = match self.ragged {
                    Some(width) => {
                        let end = width + self.taps - 2;
                        let (last, end) = (module.number(end as u64 / 4), module.number(end as u64));
                        let name = format!("{prefix}{four}_four");
                        let _ = writeln!(code, "    let {name} = min({place}, {last});");
                        let lane = format!("min({ALL_LANES}, vec4u({end} - {name} * 4u))");
                        *place = name;
                        lane
                    }
                    None if four + 1 == fours => {
                        let numbers = [0, 1, 2, 3].map(|lane| format!("{}u", lane.min(used - 1)));
                        format!("vec4u({})", numbers.join(", "))
                    }
                    None => ALL_LANES.into(),
                };
                right.still(module, &self.line, batch, &points, &lane, &format!("r{first}_{four}"), code);
            }
        }
    }

    /// Statements that read what all places of the window need, at these coordinates in k.
    pub(super) fn read(
        &self,
        module: &mut Module<'_>,
        right: &Operand,
        inner: &[Expr],
        tile_columns: usize,
        code: &mut String,
    ) {
        right.moving(module, &self.line, inner, "rk", code);
        for first in (0..tile_columns).step_by(self.run) {
            for four in 0..self.fours().0 {
                let call = right.call(&format!("r{first}_{four}"), "rk");
                let _ = writeln!(code, "    let r{first}_{four}v = {call};");
            }
        }
    }

    /// The values of the four columns from `column` on at a place of the window.
    pub(super) fn values(&self, column: usize, tap: usize, vector: &str) -> String {
        let (first, within) = (column / self.run * self.run, column % self.run);
        let start = within + if self.backwards { self.taps - 1 - tap } else { tap };
        let value = |at: usize| (format!("r{first}_{}v", at / 4), LANES[at % 4]);
        if start.is_multiple_of(4) {
            return value(start).0;
        }
        let lanes: Vec<String> = (start..start + 4).map(value).map(|(four, lane)| format!("{four}.{lane}")).collect();
        format!("{vector}({})", lanes.join(", "))
    }
}

/// 1 if the tape depends on two axes by their sum alone, -1 if by the first less the second; `None` if by neither.
fn direction(tape: &Tape, axis: usize, other: usize) -> Option<i64> {
    let (mut found, mut agree) = (None, true);
    tape.for_each_index(&mut |ix| {
        let factor = |axis: usize| {
            let own = ix.terms.iter().find(|(atom, _)| *atom == Atom::Axis(axis));
            own.map_or(0, |&(_, factor)| factor)
        };
        let is_within = |(atom, _): &(Atom, i64)| match atom {
            Atom::Axis(_) => false,
            Atom::Div(inner, _) | Atom::Mod(inner, _) => inner.uses(axis) || inner.uses(other),
        };
        let (a, b) = (factor(axis), factor(other));
        agree &= a.abs() == b.abs() && !ix.terms.iter().any(is_within);
        if a != 0 {
            agree &= *found.get_or_insert(a.signum() * b.signum()) == a.signum() * b.signum();
        }
    });
    found.filter(|_| agree)
}
