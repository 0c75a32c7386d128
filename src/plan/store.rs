//! Decides which values are stored in memory, and which are computed wherever they are needed.

use std::collections::BTreeSet;
use std::fmt;

use rustc_hash::FxHashSet;

use crate::custom::ALIGNMENT;
use crate::dtype::DType;
use crate::graph::{Binary, Op, Program, ProgramNode};
use crate::ops::elementwise;

use super::{PlanOptions, routine, whole};

/// Points for each element from which on a value that is computed at each of them is computed many times.
const MANY: usize = 4;
/// Readers of a value, and moves on the way to them, that are looked for.
const MAX_READERS: usize = 64;
/// A value whose computation costs more than this (see [`cost`]) is stored even if used once: drivers' compilers take
/// their time with long kernels.
const MAX_COST: u32 = 220;
/// The longest chain of nodes computed in one go: writing a kernel's code recurses along it.
const MAX_DEPTH: u32 = 64;
/// How often an axis may stand in the index of an element, as reshapes repeat it: each part of a row-major position is
/// a quotient or remainder of all of it.
const MAX_REPEATED: usize = 16;
/// A kernel that reads more than this leaves no room for its outputs and for merging.
const MAX_READS: usize = 10;

/// Points for each element of a stored value from which on reading it costs little: biases, means, scales of channels.
const SPREAD: usize = 32;
/// The most that a number costs that is made of a code and a scale.
const CODED: u32 = 10;
/// What reading an element costs, in units of a cheap instruction.
const LOAD: u32 = 4;
/// The same if many points share it.
const SHARED_LOAD: u32 = 1;

/// Why a value lies in memory. Costs are those of computing one element, see [`cost`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It is a leaf, a reduction, a contraction, a routine or a pack.
    Op,
    Output,
    /// It is copied over memory that is still read when it is computed.
    Forced,
    /// It is needed several times and expensive.
    Repeated {
        times: usize,
        cost: u32,
    },
    /// A view spreads it over many more points.
    Spread {
        cost: u32,
    },
    /// A contraction loads each element many times.
    Operand {
        cost: u32,
        reads: usize,
    },
    /// A contraction ends with it, and what reads it would compute it again and again.
    Epilogue,
    /// It is compared with its own maximum or minimum, and both sides must be rounded alike.
    Compared,
    /// It is read at places that depend on data.
    Gathered,
    /// It is part of a vector.
    Packed,
    /// A routine reads whole values.
    Routine,
    /// A kernel that computes it on the way would read this many values.
    Reads(usize),
    /// A kernel that computes it on the way would cost this much.
    Cost(u32),
    /// A kernel that computes it on the way would be a chain of this many nodes.
    Depth(u32),
    /// A kernel that computes it on the way would have indices that repeat an axis so often.
    Index(usize),
    /// Fusing is off.
    Unfused,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op => f.write_str("a kernel starts or ends with its op"),
            Self::Output => f.write_str("it is an output"),
            Self::Forced => f.write_str("it replaces what must be read before"),
            Self::Repeated { times, cost } => {
                write!(f, "it is used {times} times and too expensive to compute again (cost {cost})")
            }
            Self::Spread { cost } => write!(f, "a view repeats it, and each element is expensive (cost {cost})"),
            Self::Operand { cost, reads } => {
                write!(f, "a contraction loads it again and again (cost {cost} from {reads} values)")
            }
            Self::Epilogue => f.write_str("what sums ends with it, and each element is read again and again"),
            Self::Compared => f.write_str("it is compared with its own maximum or minimum, as it is rounded"),
            Self::Gathered => f.write_str("a gather reads it at places that depend on data"),
            Self::Packed => f.write_str("it is part of a vector"),
            Self::Routine => f.write_str("a routine reads it"),
            Self::Reads(reads) => write!(f, "a kernel that also computes it would read {reads} values"),
            Self::Cost(cost) => write!(f, "a kernel that also computes it would be too long (cost {cost})"),
            Self::Depth(depth) => write!(f, "a kernel that also computes it would be too deep ({depth} nodes)"),
            Self::Index(times) => {
                write!(f, "a kernel that also computes it would have too long indices (an axis {times} times)")
            }
            Self::Unfused => f.write_str("fusing is off"),
        }
    }
}

/// Which nodes get a place in memory, and why; `forced` and `compared` ones do in any case.
pub(super) fn choose_stored(
    program: &Program,
    options: &PlanOptions,
    forced: &[usize],
    compared: &[bool],
) -> Vec<Option<Why>> {
    let mut chooser = Chooser {
        program,
        why: program.nodes.iter().map(|node| (!inlinable(&node.op)).then_some(Why::Op)).collect(),
        inline: Vec::with_capacity(program.nodes.len()),
        max_reads: options.max_buffers.saturating_sub(2).clamp(1, MAX_READS),
        unaligned: whole::unaligned(program),
        outputs: vec![false; program.nodes.len()],
    };
    for output in &program.outputs {
        chooser.why[output.node].get_or_insert(Why::Output);
        chooser.outputs[output.node] = true;
    }
    for &number in forced {
        chooser.why[number].get_or_insert(Why::Forced);
    }
    for number in (0..program.nodes.len()).filter(|&number| compared[number]) {
        chooser.why[number].get_or_insert(Why::Compared);
    }
    let all_users = program.users();
    for number in 0..program.nodes.len() {
        chooser.store_epilogues(number, &all_users);
        chooser.store_inputs(number, options);
        let inline = chooser.measure_within_limits(number);
        chooser.inline.push(inline);
        if let Some(why) = chooser.computed_often(number, &all_users, options) {
            chooser.why[number].get_or_insert(why);
        }
    }
    chooser.why
}

/// What it takes to compute one element of a node from what is stored.
#[derive(Clone, Default)]
struct Inline {
    /// In units of a cheap instruction; a load counts as 4, one of an element that many points read as 1.
    cost: u32,
    /// What of it is due to loads that would count as 1 if many points read each element.
    spared: u32,
    depth: u32,
    /// See [`MAX_REPEATED`].
    repeated: usize,
    /// Stored nodes it reads.
    reads: BTreeSet<usize>,
}

/// What reads a value in the end, by way of moves that take no memory.
#[derive(PartialEq)]
struct Reader {
    node: usize,
    /// At how many points.
    points: usize,
}

struct Chooser<'a> {
    program: &'a Program,
    why: Vec<Option<Why>>,
    /// For each node so far.
    inline: Vec<Inline>,
    max_reads: usize,
    /// Nodes that do not start where a binding may.
    unaligned: FxHashSet<usize>,
    /// Which nodes are outputs.
    outputs: Vec<bool>,
}

impl Chooser<'_> {
    /// Stores what this node needs to find in memory.
    fn store_inputs(&mut self, number: usize, options: &PlanOptions) {
        let node = &self.program.nodes[number];
        match node.op {
            Op::Gather { .. } => {
                self.store(gathered_from(self.program, number, |node| self.stored(node)), Why::Gathered)
            }
            Op::Pack { .. } => node.inputs.iter().for_each(|&input| self.store(input, Why::Packed)),
            _ if routine::is_routine(&node.op) => {
                for &input in &node.inputs {
                    let stored = self.lies_in(input);
                    self.store(stored, Why::Routine);
                }
            }
            // what a contraction loads again and again should be cheap
            Op::Contract(_) => {
                for &input in &node.inputs {
                    let below = self.below_moves(input);
                    let inline = &self.inline[below];
                    let (cost, reads) = (inline.cost, inline.reads.len());
                    let is_dear = (cost > options.prologue_cost || reads > 1) && !self.is_coded(below);
                    if is_dear && inlinable(&self.program.nodes[below].op) {
                        self.store(below, Why::Operand { cost, reads });
                    }
                }
            }
            _ => {}
        }
        if !options.fuse && !self.is_free(number) {
            self.why[number].get_or_insert(Why::Unfused);
        }
    }

    /// Stores the elementwise work behind a contraction or a reduction in place of its sums, if a contraction or a window
    /// reads its elements several times each: computed once, where the sums are made, it takes no more memory, and what
    /// reads it has plain operands.
    fn store_epilogues(&mut self, number: usize, users: &[Vec<usize>]) {
        let node = &self.program.nodes[number];
        let is_contraction = match node.op {
            Op::Contract(_) => true,
            Op::Reduce { .. } => false,
            _ => return,
        };
        for &input in &node.inputs {
            let below = self.below_moves(input);
            let elements = |number: usize| self.program.nodes[number].shape.numel();
            let repeats = is_contraction || elements(input) > elements(below);
            if repeats && !self.stored(below) && self.ends_sums(below, users) {
                self.store(below, Why::Epilogue);
            }
        }
    }

    /// True if `number` is elementwise work on the sums of one contraction or reduction, and all that is made of them.
    fn ends_sums(&self, number: usize, users: &[Vec<usize>]) -> bool {
        let elements = |number: usize| self.program.nodes[number].shape.numel();
        let is_reshape = |number: usize| matches!(self.program.nodes[number].op, Op::Reshape);
        let (mut within, mut next, mut summed) = (vec![number], 0, None);
        while let Some(&found) = within.get(next) {
            next += 1;
            let node = &self.program.nodes[found];
            let is_elementwise = matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::Reshape);
            if !is_elementwise || within.len() > MAX_READERS {
                return false;
            }
            for &input in node.inputs.iter().filter(|&&input| elements(input) == elements(number)) {
                if matches!(self.program.nodes[input].op, Op::Contract(_) | Op::Reduce { .. }) {
                    if *summed.get_or_insert(input) != input {
                        return false;
                    }
                } else if !self.stored(input) && (is_reshape(input) || !self.is_free(input)) && !within.contains(&input)
                {
                    within.push(input);
                }
            }
        }
        let Some(summed) = summed else { return false };
        let (sums, last) = (&self.program.nodes[summed], &self.program.nodes[number]);
        let reads = self.inline[summed].reads.union(&self.inline[number].reads).count();
        // they share a kernel, and what is stored is no larger
        if sums.stage != last.stage || sums.dtype.size_bytes() < last.dtype.size_bytes() || reads > self.max_reads {
            return false;
        }
        within.push(summed);
        within[1..].iter().all(|&found| !self.outputs[found] && users[found].iter().all(|user| within.contains(user)))
    }

    /// True for a value that is made of a byte and a number that many of its elements share: weights in 8 bits. To store
    /// it would take four times the memory, for more to read.
    fn is_coded(&self, number: usize) -> bool {
        let elements = |number: usize| self.program.nodes[number].shape.numel();
        let (inline, all) = (&self.inline[number], elements(number));
        let is_code = |&read: &usize| self.program.nodes[read].dtype == DType::U8 && elements(read) == all;
        let (codes, others): (Vec<usize>, Vec<usize>) = inline.reads.iter().partition(|read| is_code(read));
        let is_shared = |&read: &usize| elements(read).saturating_mul(SPREAD) <= all;
        inline.cost <= CODED && codes.len() == 1 && matches!(&others[..], [scale] if is_shared(scale))
    }

    fn stored(&self, number: usize) -> bool {
        self.why[number].is_some()
    }

    /// The cost of `number`, after storing inputs until it is within the limits.
    fn measure_within_limits(&mut self, number: usize) -> Inline {
        let mut inline = self.measure(number);
        loop {
            let why = match () {
                () if inline.reads.len() > self.max_reads => Why::Reads(inline.reads.len()),
                () if inline.cost > MAX_COST => Why::Cost(inline.cost),
                () if inline.depth > MAX_DEPTH => Why::Depth(inline.depth),
                () if inline.repeated > MAX_REPEATED => Why::Index(inline.repeated),
                () => break,
            };
            let inputs = &self.program.nodes[number].inputs;
            let below = inputs.iter().map(|&input| self.below_moves(input));
            let candidates = below.filter(|&input| !self.stored(input) && !self.is_free(input));
            let costliest = candidates.max_by_key(|&input| {
                let inline = &self.inline[input];
                (inline.reads.len(), inline.cost, inline.depth)
            });
            // what lies in memory may have been moved too often
            let is_far = matches!(why, Why::Depth(_) | Why::Index(_));
            let moved = inputs.iter().copied().filter(|&input| is_far && self.is_move(input) && !self.stored(input));
            let farthest = || moved.max_by_key(|&input| (self.inline[input].depth, self.inline[input].repeated));
            let Some(costliest) = costliest.or_else(farthest) else { break };
            self.store(costliest, why);
            inline = self.measure(number);
        }
        inline
    }

    /// Stores a node after all, and measures again what was to be computed through it.
    fn store(&mut self, number: usize, why: Why) {
        if self.stored(number) {
            return;
        }
        self.why[number] = Some(why);
        let mut changed = vec![false; self.inline.len().saturating_sub(number)];
        if let Some(first) = changed.first_mut() {
            *first = true;
        }
        for later in number + 1..self.inline.len() {
            let through = |&input: &usize| input >= number && changed[input - number];
            if self.program.nodes[later].inputs.iter().any(through) {
                self.inline[later] = self.measure(later);
                changed[later - number] = !self.stored(later);
            }
        }
    }

    fn measure(&self, number: usize) -> Inline {
        let node = &self.program.nodes[number];
        let mut result = Inline { cost: cost(self.program, node), repeated: 1, ..Inline::default() };
        // what is only waited for is not read
        let read = if matches!(node.op, Op::After) { 1 } else { node.inputs.len() };
        for &input in &node.inputs[..read] {
            let shared = self.is_shared(input, number);
            if self.stored(input) {
                result.cost += if shared { SHARED_LOAD } else { LOAD };
                result.spared += if shared { 0 } else { LOAD - SHARED_LOAD };
                result.reads.insert(input);
            } else {
                let inner = &self.inline[input];
                let spared = if shared { inner.spared } else { 0 };
                result.cost = result.cost.saturating_add(inner.cost - spared);
                result.spared = result.spared.saturating_add(inner.spared - spared);
                result.depth = result.depth.max(inner.depth + 1);
                result.repeated = result.repeated.max(inner.repeated.saturating_mul(self.repeats(number, input)));
                result.reads.extend(&inner.reads);
            }
        }
        result
    }

    /// True if so many points of `user` share an element of `input` that it comes from a cache.
    fn is_shared(&self, input: usize, user: usize) -> bool {
        let [elements, points] = [input, user].map(|number| self.program.nodes[number].shape.numel());
        elements == 1 || elements.saturating_mul(SPREAD) <= points
    }

    /// True for nodes that are never worth memory: moved values, constants, and what is made of host scalars only.
    fn is_free(&self, number: usize) -> bool {
        let node = &self.program.nodes[number];
        let constant = |op: &Op| matches!(op, Op::Const(_) | Op::Uniform | Op::Iota { .. });
        constant(&node.op)
            || self.is_move(number)
            || (!node.inputs.is_empty() && node.inputs.iter().all(|&input| constant(&self.program.nodes[input].op)))
    }

    /// The node below any moves that are not stored themselves.
    fn below_moves(&self, mut number: usize) -> usize {
        while self.is_move(number) && !self.stored(number) {
            number = self.program.nodes[number].inputs[0];
        }
        number
    }

    /// The value that a routine reads where `number` is: what it was moved from, if it lies there as it is, and itself
    /// if not.
    fn lies_in(&self, number: usize) -> usize {
        let nodes = &self.program.nodes;
        let (mut lies, mut start) = (number, 0);
        while !self.stored(lies)
            && let Some(more) = routine::start_within(self.program, lies)
        {
            start += more;
            lies = nodes[lies].inputs[0];
            // what is in between may come to be stored, too
            let aligned = (start * nodes[number].dtype.size_bytes()).is_multiple_of(ALIGNMENT);
            if !aligned || self.unaligned.contains(&lies) {
                return number;
            }
        }
        // of what is not in memory in any case, no more than is wanted
        let fits = self.stored(lies) || nodes[lies].shape.numel() == nodes[number].shape.numel();
        if fits { lies } else { number }
    }

    /// Why `number` should be stored, if it would else be computed too often for what it costs.
    fn computed_often(&self, number: usize, users: &[Vec<usize>], options: &PlanOptions) -> Option<Why> {
        let cost = self.inline[number].cost;
        let is_dear = cost > options.recompute_cost;
        if self.is_free(number) || !is_dear && cost <= options.prologue_cost {
            return None;
        }
        let readers = if is_dear { self.readers(number, users) } else { Vec::new() };
        let direct = &users[number];
        let times = direct.len().max(readers.len());
        if is_dear && times > 1 {
            return Some(Why::Repeated { times, cost });
        }
        // what is spread behind other moves is mostly a scale of channels: only if it is expensive
        let points = direct.iter().map(|&user| self.points(user, 0)).chain(readers.iter().map(|reader| reader.points));
        let elements = self.program.nodes[number].shape.numel().max(1);
        let is_spread = cost > options.prologue_cost && points.max().is_some_and(|points| points >= MANY * elements);
        is_spread.then_some(Why::Spread { cost })
    }

    fn is_move(&self, number: usize) -> bool {
        self.program.nodes[number].op.is_move()
    }

    /// Who reads the value of `number` in the end: it would be computed for each of them, and for each of their points.
    fn readers(&self, number: usize, users: &[Vec<usize>]) -> Vec<Reader> {
        let mut readers = Vec::new();
        let mut moves = vec![(number, self.program.nodes[number].shape.numel())];
        while let Some((moved, points)) = moves.pop() {
            for &user in &users[moved] {
                let points = self.points(user, points);
                if self.is_move(user) && !self.stored(user) && readers.len() + moves.len() < MAX_READERS {
                    moves.push((user, points));
                    continue;
                }
                let reader = Reader { node: user, points };
                if !readers.contains(&reader) {
                    readers.push(reader);
                }
            }
        }
        readers
    }

    /// At how many points a view reads its input; what is no view, at `otherwise`.
    fn points(&self, user: usize, otherwise: usize) -> usize {
        let node = &self.program.nodes[user];
        let Op::View(view) = &node.op else { return otherwise };
        // in holes nothing is computed
        node.shape.numel() / view.holes()
    }

    /// How often `number`, which is computed from `input`, has one of its axes in the index of an element of that.
    fn repeats(&self, number: usize, input: usize) -> usize {
        let (node, from) = (&self.program.nodes[number], &self.program.nodes[input].shape);
        match &node.op {
            Op::Reshape => most_parts(&node.shape, from),
            Op::View(view) => {
                let uses =
                    |axis: usize| view.dims.iter().filter(|dim| dim.terms.iter().any(|term| term.0 == axis)).count();
                (0..node.shape.rank()).map(uses).max().unwrap_or(1).max(1)
            }
            _ => 1,
        }
    }
}

/// Into how many axes of `from` a position in `to` is divided at most, where both have the same elements.
fn most_parts(to: &[usize], from: &[usize]) -> usize {
    if to.contains(&0) || from.contains(&0) {
        return 1;
    }
    let [mut to, mut from] = [to, from].map(|sizes| sizes.iter().copied().filter(|&size| size != 1));
    let mut most = 1;
    while let (Some(mut left), Some(mut right)) = (to.next(), from.next()) {
        let mut parts = 1;
        // the shortest run of axes on both sides that has the same elements
        while left != right {
            let is_from = right < left;
            let (short, rest) = if is_from { (&mut right, &mut from) } else { (&mut left, &mut to) };
            let Some(size) = rest.next() else { return most.max(parts) };
            *short = short.saturating_mul(size);
            parts += usize::from(is_from);
        }
        most = most.max(parts);
    }
    most
}

/// Cost of computing one element again, in units of a cheap instruction.
fn cost(program: &Program, node: &ProgramNode) -> u32 {
    let is_constant = |input: usize| matches!(program.nodes[node.inputs[input]].op, Op::Const(_));
    match &node.op {
        // nearly always a mean's, of which a row has one
        Op::Binary(Binary::Div) if is_constant(1) => elementwise::binary(Binary::Mul).cost,
        Op::Const(_) | Op::Uniform | Op::Reshape | Op::After | Op::Iota { .. } => 0,
        Op::Unary(op) => elementwise::unary(*op).cost,
        Op::Binary(op) => elementwise::binary(*op).cost,
        Op::Random { .. } => 30,
        Op::Gather { .. } => 5,
        _ => 1,
    }
}

/// True for nodes that are computed where they are needed unless someone decides to store them.
fn inlinable(op: &Op) -> bool {
    !matches!(op, Op::Leaf | Op::Reduce { .. } | Op::Contract(_) | Op::Pack { .. }) && !routine::is_routine(op)
}

/// The node in memory that a gather reads: what is reshaped lies row-major, and may be read in any shape.
pub(super) fn gathered_from(program: &Program, gather: usize, stored: impl Fn(usize) -> bool) -> usize {
    let mut number = program.nodes[gather].inputs[0];
    while matches!(program.nodes[number].op, Op::Reshape) && !stored(number) {
        number = program.nodes[number].inputs[0];
    }
    number
}
