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

    /// Statements that say which of its neighbours' rows a lane reads, and who the first of them is.
    pub(super) fn who(self) -> String {
        match self.sharing {
            1 => String::new(),
            _ => format!("    let own = {};\n    let first = lane - lane % SHARING;\n", self.own()),
        }
    }

    /// The first row that a lane reads, counted from that of the first lane. Of more lanes than rows some read the same.
    fn own(self) -> String {
        format!("lane % {}u * {}u", self.sharing.min(self.rows / self.stride), self.stride)
    }

    /// Statements for the values that are fixed for each of the tile's rows, of which there are `count` in all.
    pub(super) fn of_rows(self, module: &mut Module<'_>, count: usize, fixed: &Fixed, code: &mut String) {
        if fixed.rows.is_empty() {
            return;
        }
        let one = Self { stride: 1, ..self };
        let last = module.number(count as u64 - 1);
        let (read, own) =
            if self.sharing > 1 { ("own_row", format!(" + {}", one.own())) } else { ("of_row", String::new()) };
        for id in &fixed.rows {
            for row in one.read() {
                let _ = writeln!(code, "    let {read}{row}_{id} = row_{id}(batch, min(row + {row}u{own}, {last}));");
            }
            one.exchange(["of_row", read], &format!("_{id}"), code);
        }
    }

    /// Statements that give all lanes what each of them read, if they read together: values of the first name that were
    /// read under the second, both with a row and `which` behind them.
    pub(super) fn exchange(self, [all, read]: [&str; 2], which: &str, code: &mut String) {
        let Self { rows, stride, sharing } = self;
        if sharing == 1 {
            return;
        }
        for (number, row) in (0..rows).step_by(stride).enumerate() {
            let lane = number % sharing;
            let first = row - lane * stride;
            let _ =
                writeln!(code, "    let {all}{row}{which} = subgroupShuffle({read}{first}{which}, first + {lane}u);");
        }
    }
}
