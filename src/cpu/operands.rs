//! What a contraction multiplies: which operand gives the rows, and how each is read.

use pulp::Arch;

use crate::dtype::DType;
use crate::graph::ReduceOp;
use crate::plan::{ContractKernel, Store, Tape, ValueId};

use super::blocking::Blocking;
use super::dots;
use super::gemm::{FEW, Matrix, NOT_TURNED};
use super::lanes::Height;
use super::micro::Tile;
use super::pack::{Groups, Operand};
use super::prepack::{Buffers, Layout, Prepacked};
use super::windowed::Windowed;
use super::windows::Windows;

/// The share of lanes that windows without a filter of many channels must fill.
const MIN_FILLED: f64 = 0.4;

/// The operands: lhs and rhs.
#[derive(Debug)]
pub(super) enum Operands {
    /// Multiplied as they lie.
    Plain(Matrix, Matrix),
    /// Packed for the micro-kernel.
    Packed(Box<[Operand; 2]>),
    /// The second one is evaluated into grids, the first one packed.
    Windows(Box<Windowed>),
}

impl Operands {
    /// True if a product of so many rows, columns and summed points multiplies lines of one by lines of the other, where
    /// the second one might also be turned over `beforehand`.
    pub(super) fn are_dots(&self, sizes: [usize; 3], beforehand: bool) -> bool {
        let Self::Plain(lhs, rhs) = self else { return false };
        lhs.lies_along_sums() && rhs.lies_along_sums() && dots::pays(sizes, beforehand)
    }
}

/// True if the results lie closer together along `m` than along `n`.
fn stores_along(stores: &[Store], m: &[usize], n: &[usize], axes: &[usize]) -> bool {
    let stride = |store: &Store, group: &[usize]| {
        let axis = *group.iter().rev().find(|&&axis| axes[axis] > 1)?;
        let (strides, _) = store.index.affine(axes.len())?;
        (strides[axis] != 0).then_some(strides[axis].abs())
    };
    stores.first().is_some_and(|store| match (stride(store, m), stride(store, n)) {
        (Some(along_m), Some(along_n)) => along_m < along_n,
        (along_m, along_n) => along_m.is_some() && along_n.is_none(),
    })
}

/// Lhs or rhs as windows: lhs is looked at only if rhs is none.
pub(super) fn windows(kernel: &ContractKernel, dtypes: &[DType]) -> [Option<Windows>; 2] {
    let sides = Sides::as_named(kernel);
    let ([lhs, rhs], [_, rows, columns, _]) = (sides.operands, sides.sizes());
    let find = |own: &[usize], operand, others: usize| {
        let is_float = kernel.accumulator.is_float();
        is_float.then(|| Windows::new(sides.axes, &sides.groups(own), operand, others, dtypes)).flatten()
    };
    match find(&sides.n, rhs, rows) {
        Some(rhs) => [None, Some(rhs)],
        None => [find(&sides.m, lhs, columns), None],
    }
}

/// True if both operands are plain.
pub(super) fn is_plain(kernel: &ContractKernel, dtypes: &[DType]) -> bool {
    let sides = Sides::as_named(kernel);
    let [lhs, rhs] = sides.operands;
    sides.matrix(&sides.m, lhs, dtypes).is_some() && sides.matrix(&sides.n, rhs, dtypes).is_some()
}

/// True if the windows' places can be the lanes of vectors, and are not too few.
pub(super) fn fills_lanes(windows: &Windows, arch: Arch) -> bool {
    windows.lanes(arch).is_some_and(|lanes| lanes.share(Height::ONE, 1) >= MIN_FILLED)
}

/// True if an operand is windows whose places can be the lanes of vectors.
pub(super) fn slides(kernel: &ContractKernel, dtypes: &[DType], arch: Arch) -> bool {
    windows(kernel, dtypes).iter().flatten().any(|windows| fills_lanes(windows, arch))
}

/// The groups of a contraction's axes, and its operands: the first one has the rows and the second one the columns, as
/// the kernel says or the other way round.
pub(super) struct Sides<'a> {
    axes: &'a [usize],
    pub(super) batch: Vec<usize>,
    /// Axes of rows, columns and summed points.
    pub(super) m: Vec<usize>,
    pub(super) n: Vec<usize>,
    k: Vec<usize>,
    operands: [(&'a Tape, ValueId); 2],
}

impl<'a> Sides<'a> {
    /// Lhs first.
    fn as_named(kernel: &'a ContractKernel) -> Self {
        let [batch, m, n, k] = [0, 1, 2, 3].map(|number| kernel.group(number).collect::<Vec<usize>>());
        let operands = [&kernel.lhs, &kernel.rhs].map(|(tape, value)| (tape, *value));
        Self { axes: &kernel.axes, batch, m, n, k, operands }
    }

    /// Windows, if lhs or rhs of the kernel are some, give the columns; else what stores better and wastes less.
    pub(super) fn new(kernel: &'a ContractKernel, are_windows: [bool; 2], arch: Arch) -> Self {
        let sides = Self::as_named(kernel);
        let ([lhs, rhs], [_, rows, columns, _]) = (sides.operands, sides.sizes());
        // Tiles half empty cost more than results written with gaps.
        let (plain, swapped) = (Tile::padded(arch, rows, columns), Tile::padded(arch, columns, rows));
        let swaps = match are_windows {
            [_, true] => false,
            [true, false] => true,
            _ if stores_along(&kernel.stores, &sides.m, &sides.n, sides.axes) => 2 * swapped <= 3 * plain,
            _ => 3 * swapped < 2 * plain,
        };
        if swaps { Self { m: sides.n, n: sides.m, operands: [rhs, lhs], ..sides } } else { sides }
    }

    pub(super) fn groups<'b>(&'b self, own: &'b [usize]) -> Groups<'b> {
        Groups { batch: &self.batch, own, summed: &self.k }
    }

    /// Batches, rows, columns and summed points.
    pub(super) fn sizes(&self) -> [usize; 4] {
        [&self.batch, &self.m, &self.n, &self.k].map(|group| group.iter().map(|&axis| self.axes[axis]).product())
    }

    fn matrix(&self, own: &[usize], operand: (&Tape, ValueId), dtypes: &[DType]) -> Option<Matrix> {
        Matrix::new(self.axes, &self.groups(own), operand, dtypes)
    }

    /// How they are read; `windows` are those that the second one is, to be multiplied, or only joined.
    pub(super) fn operands(
        &self,
        arch: Arch,
        windows: Option<Windows>,
        join: Option<ReduceOp>,
        dtypes: &[DType],
    ) -> Operands {
        let [lhs, rhs] = self.operands;
        let matrix = |own, operand| self.matrix(own, operand, dtypes);
        let operand = |own, operand| Operand::new(self.axes, &self.groups(own), operand, dtypes);
        match (matrix(&self.m, lhs), matrix(&self.n, rhs), windows) {
            (Some(lhs), Some(rhs), _) => Operands::Plain(lhs, rhs),
            (_, _, Some(windows)) => {
                let [_, rows, ..] = self.sizes();
                Operands::Windows(Box::new(Windowed::new(arch, windows, operand(&self.m, lhs), rows, join)))
            }
            _ => Operands::Packed(Box::new([operand(&self.m, lhs), operand(&self.n, rhs)])),
        }
    }

    /// Those of them that are packed before the plan's first kernel; `turns` if the second one is turned over.
    pub(super) fn prepacked(
        &self,
        operands: &Operands,
        blocks: &Blocking,
        turns: bool,
        buffers: &Buffers,
    ) -> [Option<Prepacked>; 2] {
        let [_, rows, columns, summed] = self.sizes();
        let [lhs, rhs] = self.operands;
        let prepacked = |own, operand, layout| Prepacked::new(self.axes, &self.groups(own), operand, layout, buffers);
        let panels = |points: usize, width: usize| {
            (Layout::Panels { width, depth: blocks.depth }, points.next_multiple_of(width) * summed)
        };
        match operands {
            // what the crate would not turn over it shall not find turned over
            Operands::Plain(..) if turns && rows > FEW && blocks.least([rows, columns]) > NOT_TURNED => {
                [None, prepacked(&self.n, rhs, (Layout::Turned, columns * summed))]
            }
            Operands::Plain(..) => [None, None],
            Operands::Packed(_) => {
                // blocks may be no whole tiles
                let are_whole = blocks.columns.is_multiple_of(blocks.tile.columns);
                let of_columns = || prepacked(&self.n, rhs, panels(columns, blocks.tile.columns));
                let of_rows = prepacked(&self.m, lhs, panels(rows, blocks.tile.rows));
                [of_rows, are_whole.then(of_columns).flatten()]
            }
            Operands::Windows(operands) => {
                [operands.layout(blocks, summed).and_then(|layout| prepacked(&self.m, lhs, layout)), None]
            }
        }
    }
}
