//! Operands that are packed once for many runs.
//!
//! A product turns its operands over, packs or transforms them before it multiplies. Weights that a plan only reads are
//! mostly the same from run to run: they are packed before the first kernel, and again only when somebody has written
//! them. What they became belongs to the memory they lie in, so that other plans, and the same one bound anew, find it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::dtype::DType;
use crate::plan::{BufferId, InstrOp, Place, Plan, Tape, ValueId};

use super::memory::{Blocks, Memory};
use super::pack::Groups;
use super::program::expressions;
use super::view::View;

/// Bytes that a plan packs beforehand, at most: they come on top of the weights themselves. Other operands are packed
/// piece by piece in each run.
const MAX_BYTES: u64 = 1 << 30;
/// Words of such an operand, at least: smaller ones are packed in less time than it takes to look for them.
const MIN_WORDS: usize = 4 << 10;

/// What kernels are told about a plan's buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) dtypes: Vec<DType>,
    /// Which external storage a buffer is, if no kernel of the plan writes it.
    read_only: Vec<Option<usize>>,
    /// The external storages that are written.
    written: Vec<usize>,
}

impl Buffers {
    pub(super) fn of(plan: &Plan) -> Self {
        let written: BTreeSet<BufferId> = plan.kernels.iter().flat_map(|kernel| kernel.body.writes()).collect();
        let read_only = plan.buffers.iter().enumerate().map(|(number, buffer)| match buffer.place {
            Place::External(external) if !written.contains(&number) => Some(external),
            _ => None,
        });
        let externals = written.iter().filter_map(|&number| match plan.buffers[number].place {
            Place::External(external) => Some(external),
            Place::Slot(_) => None,
        });
        Self {
            dtypes: plan.buffers.iter().map(|buffer| buffer.dtype).collect(),
            read_only: read_only.collect(),
            written: externals.collect(),
        }
    }

    /// The same where nothing is only read.
    #[cfg(test)]
    pub(super) fn all_changing(self) -> Self {
        Self { read_only: vec![None; self.read_only.len()], ..self }
    }

    pub(super) fn written(self) -> Vec<usize> {
        self.written
    }

    /// The only buffer that `tape` reads, and which storage it is, if nothing but constants decides what else it
    /// computes.
    fn source(&self, tape: &Tape) -> Option<(BufferId, usize)> {
        let buffer = tape.loads().next().filter(|&first| tape.loads().all(|buffer| buffer == first))?;
        let is_fixed = |op: &InstrOp| match op {
            InstrOp::Load { valid, .. } => valid.is_empty(),
            InstrOp::Const(_) | InstrOp::Unary(..) | InstrOp::Binary(..) | InstrOp::Cast(..) => true,
            _ => false,
        };
        let external = self.read_only[buffer].filter(|_| tape.instrs.iter().all(|instr| is_fixed(&instr.op)))?;
        Some((buffer, external))
    }
}

/// Where the words of a packed operand lie.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Layout {
    /// `[batch][k][point]`
    Turned,
    /// `[batch][step of k][panel][k][width]`
    Panels { width: usize, depth: usize },
    /// Filters of 3x3 windows, transformed: `[batch][panel][point of a tile][channel][height]`
    Tiles { height: usize, taps: [[usize; 3]; 3] },
}

/// How an operand is packed. Those of the same storage and packing are the same words.
#[derive(PartialEq, Eq, Hash, Debug)]
pub(super) struct Packing {
    layout: Layout,
    dtype: DType,
    /// Sizes of the axes; 1 of those that the operand does not have.
    axes: Vec<usize>,
    groups: [Vec<usize>; 3],
    tape: Tape,
    value: ValueId,
}

/// An operand of a kernel that is packed before the first one runs.
#[derive(Debug)]
pub(super) struct Prepacked {
    pub(super) packing: Arc<Packing>,
    external: usize,
    words: usize,
    batches: usize,
    /// Which of the plan's packed operands it is; `None` until they are counted, and if there are too many.
    pub(super) number: Option<usize>,
}

impl Prepacked {
    /// An operand of so many words for each batch, if the plan only reads what it is computed from.
    pub(super) fn new(
        axes: &[usize],
        groups: &Groups<'_>,
        (tape, value): (&Tape, ValueId),
        (layout, words): (Layout, usize),
        buffers: &Buffers,
    ) -> Option<Self> {
        let (buffer, external) = buffers.source(tape)?;
        let batches = batches(axes, groups, tape);
        if batches * words < MIN_WORDS {
            return None;
        }
        let mut own = vec![1; axes.len()];
        let of_batch = if batches == 1 { &[] } else { groups.batch };
        for &axis in [of_batch, groups.own, groups.summed].into_iter().flatten() {
            own[axis] = axes[axis];
        }
        let mut tape = tape.clone();
        tape.instrs.iter_mut().for_each(|instr| {
            if let InstrOp::Load { buffer, .. } = &mut instr.op {
                *buffer = 0;
            }
        });
        let groups = [of_batch, groups.own, groups.summed].map(<[usize]>::to_vec);
        let packing = Packing { layout, dtype: buffers.dtypes[buffer], axes: own, groups, tape, value };
        Some(Self { packing: Arc::new(packing), external, words: batches * words, batches, number: None })
    }

    /// It among the plan's packed operands.
    pub(super) fn ready(&self, packed: &[View]) -> Option<Ready> {
        Some(Ready { words: packed[self.number?], batches: self.batches })
    }
}

/// A packed operand that is ready to be multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) words: View,
    /// How many batches it has; one may stand for all.
    pub(super) batches: usize,
}

/// How many different batches an operand has: 1 if it is the same in all.
fn batches(axes: &[usize], groups: &Groups<'_>, tape: &Tape) -> usize {
    let expressions = expressions(tape, &[]);
    let differ = groups.batch.iter().any(|&axis| axes[axis] > 1 && expressions.iter().any(|ix| ix.uses(axis)));
    if differ { groups.batch.iter().map(|&axis| axes[axis]).product() } else { 1 }
}

/// Something that a plan packs before its first kernel.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) packing: Arc<Packing>,
    pub(super) external: usize,
    words: usize,
    pub(super) batches: usize,
    /// The first kernel that needs it, the product of its that does, and which operand it is there.
    pub(super) kernel: usize,
    pub(super) product: usize,
    pub(super) operand: usize,
}

/// Numbers the packed operands of the products of a plan's kernels, the same ones once, as long as there are not too
/// many bytes of them.
pub(super) fn count<'a>(
    kernels: impl Iterator<Item = impl Iterator<Item = &'a mut [Option<Prepacked>; 2]>>,
) -> Vec<Source> {
    let (mut sources, mut bytes): (Vec<Source>, u64) = (Vec::new(), 0);
    let mut numbers: HashMap<(usize, Arc<Packing>), usize> = HashMap::new();
    let products = kernels.enumerate().flat_map(|(kernel, products)| {
        products.enumerate().map(move |(product, operands)| (kernel, product, operands))
    });
    for (kernel, product, operands) in products {
        for (operand, found) in operands.iter_mut().enumerate() {
            let Some(Prepacked { packing, external, words, batches, number }) = found else { continue };
            let key = (*external, Arc::clone(packing));
            let more = 4 * *words as u64;
            *number = match numbers.get(&key) {
                Some(&number) => Some(number),
                None if bytes + more <= MAX_BYTES => {
                    let packing = Arc::clone(packing);
                    let (external, words, batches) = (*external, *words, *batches);
                    numbers.insert(key, sources.len());
                    sources.push(Source { packing, external, words, batches, kernel, product, operand });
                    bytes += more;
                    Some(sources.len() - 1)
                }
                None => None,
            };
        }
    }
    sources
}

/// Words of a packed operand, and of which contents they were made.
#[derive(Debug)]
pub(super) struct Packed {
    source: Memory,
    words: Memory,
    /// Bytes of the words.
    bytes: u64,
    version: Option<u64>,
    blocks: Blocks,
}

impl Packed {
    /// Room for what `source` packs of `memory`, or its words, if these are kept; `None` if there is no memory left.
    pub(super) fn new(source: &Source, memory: &Memory, blocks: &Blocks) -> Option<Self> {
        let bytes = 4 * source.words as u64;
        let (version, words) = match memory.packed(&source.packing) {
            Some((version, words)) => (Some(version), words),
            None => (None, blocks.scratch(bytes)?),
        };
        Some(Self { source: memory.clone(), words, bytes, version, blocks: blocks.clone() })
    }

    /// The version of the contents that the words were made of.
    #[cfg(test)]
    pub(super) fn version(&self) -> Option<u64> {
        self.version
    }

    pub(super) fn view(&self) -> View {
        self.words.view(0, self.bytes)
    }

    /// Has `pack` write the words anew, unless they were made of what the memory contains, or such words are kept; false
    /// if they are the ones that they were.
    pub(super) fn refresh(&mut self, source: &Source, pack: impl FnOnce(View)) -> bool {
        let version = self.source.version();
        if self.version == Some(version) {
            return false;
        }
        if let Some((version, words)) = self.source.packed(&source.packing) {
            (self.version, self.words) = (Some(version), words);
            return true;
        }
        if self.words.is_shared() {
            // another plan may be multiplying with them
            self.words = self.blocks.scratch(self.bytes).expect("memory for weights in another packing");
        }
        pack(self.view());
        self.version = Some(version);
        self.source.keep_packed(&source.packing, version, &self.words);
        true
    }
}

/// What was made of a memory's contents, for as long as these stay what they are.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Counts what was written.
    version: u64,
    packed: HashMap<Arc<Packing>, Option<Memory>>,
}

impl Kept {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Forgets everything, because the contents have changed; what has to go is returned, to be dropped outside of a
    /// lock.
    #[must_use]
    pub(super) fn changed(&mut self) -> HashMap<Arc<Packing>, Option<Memory>> {
        self.version += 1;
        std::mem::take(&mut self.packed)
    }

    /// The words of a packing, if they are kept.
    pub(super) fn words(&self, packing: &Arc<Packing>) -> Option<Memory> {
        self.packed.get(packing).cloned().flatten()
    }

    /// Keeps `words`, made of the contents of `version`, if these were packed like that before: most of what is packed
    /// once is needed once.
    pub(super) fn keep(&mut self, packing: &Arc<Packing>, version: u64, words: &Memory) {
        if version != self.version {
            return;
        }
        let seen = self.packed.contains_key(packing);
        let kept = self.packed.entry(Arc::clone(packing)).or_default();
        if seen && kept.is_none() {
            *kept = Some(words.clone());
        }
    }
}
