//! Who reads what a tile's rows have in common: each lane all of it, or lanes of a subgroup whose tiles have the same
//! rows a part each, which they exchange.

use std::fmt::Write as _;

use crate::gpu::render::module::Module;

use super::epilogue::Fixed;

/// Who reads the values of a tile's rows.
#[derive(Clone, Copy)]
pub(super) struct Lefts {
    pub(super) rows: usize,
    /// Rows that are read together.
    pub(super) stride: usize,
    /// Lanes that read together.
    pub(super) sharing: usize,
}

impl Lefts {
    /// The first rows that a lane reads; those of its neighbours follow.
    pub(super) fn read(self) -> Vec<usize> {
        (0..self.rows).step_by(self.stride * self.sharing).collect()
    }

    /// Statements that say which of its neighbours' rows a lane reads, and who the first of them is. Of more lanes than
    /// rows some read the same.
    pub(super) fn who(self) -> String {
        let Self { rows, stride, sharing } = self;
        if sharing == 1 {
            return String::new();
        }
        let readers = sharing.min(rows / stride);
        format!("    let own = lane % {readers}u * {stride}u;\n    let first = lane - lane % SHARING;\n")
    }

    /// Statements for the values that are fixed for each of the tile's rows, of which there are `count` in all.
    pub(super) fn of_rows(self, module: &mut Module<'_>, count: usize, fixed: &Fixed, code: &mut String) {
        if fixed.rows.is_empty() {
            return;
        }
        let one = Self { stride: 1, ..self };
        let last = module.number(count as u64 - 1);
        if self.sharing > 1 {
            let _ = writeln!(code, "    let own_row = lane % {}u;", self.sharing.min(self.rows));
        }
        for id in &fixed.rows {
            if self.sharing == 1 {
                for row in 0..self.rows {
                    let _ = writeln!(code, "    let of_row{row}_{id} = row_{id}(batch, min(row + {row}u, {last}));");
                }
                continue;
            }
            for row in one.read() {
                let _ =
                    writeln!(code, "    let own_row{row}_{id} = row_{id}(batch, min(row + {row}u + own_row, {last}));");
            }
            for row in 0..self.rows {
                let (read, lane) = (row - row % self.sharing, row % self.sharing);
                let _ =
                    writeln!(code, "    let of_row{row}_{id} = subgroupShuffle(own_row{read}_{id}, first + {lane}u);");
            }
        }
    }

    /// Statements that give all lanes the values of step `j` which each of them read.
    pub(super) fn exchange(self, j: usize, body: &mut String) {
        for (number, row) in (0..self.rows).step_by(self.stride).enumerate() {
            let (read, lane) = (row - number % self.sharing * self.stride, number % self.sharing);
            let _ = writeln!(body, "    let l{row}v{j} = subgroupShuffle(own{read}v{j}, first + {lane}u);");
        }
    }
}
