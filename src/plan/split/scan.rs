//! Cumulative reductions of rows that are too few: each block begins with what comes before it.

use crate::graph::{Op, ProgramNode, View};
use crate::ops::movement;
use crate::ops::scan::Scan;

use super::{Cut, Splitter};

/// Blocks are not asked to be shorter than this, half of what a workgroup takes at a time.
const MIN_BLOCK: usize = 1 << 10;
/// Rows for which fewer are wanted are not cut: all elements are read once more for it, and three launches are added.
const MIN_BLOCKS: usize = 4;
/// Rows that lie side by side and share a workgroup: lines of 128 bytes.
const ABREAST: usize = 32;

impl Splitter<'_> {
    /// The scan `node` in blocks, if that is better: the elements of each are joined, these results cumulatively, and the
    /// blocks' scans begin with what comes before.
    pub(super) fn split_scan(&mut self, node: &ProgramNode) -> Option<usize> {
        let &Op::Scan { op, axis, reverse, .. } = &node.op else { return None };
        let scan = Scan::of(&node.op, node.dtype, &node.shape)?;
        let (rows, abreast) = (node.shape.numel() / scan.length.max(1), scan.inner.clamp(1, ABREAST));
        let groups = rows.div_ceil(abreast).max(1);
        let wanted = self.options.wanted_groups.div_ceil(groups).min(scan.length / MIN_BLOCK);
        if node.inputs.len() > 1 || wanted < MIN_BLOCKS {
            return None;
        }
        let chunk = scan
            .length
            .div_ceil(wanted)
            .next_multiple_of(MIN_BLOCK)
            .min(self.options.row_part)
            .min(self.options.max_row);
        let cut = Cut { axis, parts: scan.length.div_ceil(chunk), chunk };
        let nothing = op.identity(node.dtype);
        let pieces = self.pieces(node, node.inputs[0], cut, nothing);
        let blocks = self.reduce_parts(node, pieces, op, &[axis], cut);
        let mut shape = node.shape.to_vec();
        shape[axis] = cut.parts;
        let blocks = self.derive(node, Op::Reshape, &[blocks], &shape, node.dtype);
        let up_to = ProgramNode {
            op: Op::Scan { op, axis, block: usize::MAX, reverse },
            inputs: [blocks].as_slice().into(),
            shape: shape.as_slice().into(),
            ..node.clone()
        };
        let up_to = self.split_scan(&up_to).unwrap_or_else(|| self.push(up_to));
        let mut dims = movement::identity(&self.nodes[up_to].shape).dims;
        dims[axis].offset = if reverse { 1 } else { -1 };
        let before = self.derive(node, Op::View(View { dims, fill: nothing }), &[up_to], &shape, node.dtype);
        let inputs = [node.inputs[0], before];
        Some(self.derive(node, Op::Scan { op, axis, block: chunk, reverse }, &inputs, &node.shape, node.dtype))
    }
}
