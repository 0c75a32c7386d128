//! From a tape to WGSL statements, one point or four lanes at a time.

use std::fmt::Write as _;

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Binary, Unary};
use crate::plan::{Cond, InstrOp, Ix, Store, Tape, ValueId};

use super::module::{Module, splat};
use super::scalar::{self, LANES, Register};
use super::space::{Expr, First, Lanes, Space};

/// Names of the values that come from outside the tape.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    /// True if results of reductions (`r0`, `r1`, …) are single values while the tape runs over four lanes.
    pub narrow_reduced: bool,
    /// Values of the tape that are there under other names.
    pub known: Vec<(ValueId, String)>,
    /// Which values are needed, if not all.
    pub only: Option<Vec<bool>>,
}

impl Module<'_> {
    /// Appends the tape's statements to `code`; value `i` is `v{i}` afterwards.
    pub(crate) fn tape(&mut self, space: &mut Space, tape: &Tape, outside: Outside, code: &mut String) -> Result<()> {
        for (id, instr) in tape.instrs.iter().enumerate() {
            if outside.only.as_ref().is_some_and(|only| !only[id]) {
                continue;
            }
            if let Some((_, name)) = outside.known.iter().find(|(known, _)| *known == id) {
                let _ = writeln!(code, "    let v{id} = {name};");
                continue;
            }
            let width = space.width;
            let register = Register::of(instr.dtype);
            let input = |value: ValueId| tape.instrs[value].dtype;
            let expression = match &instr.op {
                // computing as if NaN and infinity did not occur, compilers take `x * 0` for 0
                InstrOp::Const(zero) if is_zero_factor(tape, id) => {
                    splat(&self.hidden_float(zero.to_f64() as f32), register, width)
                }
                InstrOp::Const(scalar) => self.constant(*scalar, width),
                InstrOp::Uniform(n) => {
                    let bits = self.host_value(*n);
                    splat(&from_bits(&bits, instr.dtype), register, width)
                }
                InstrOp::Coord(ix) => {
                    let ix = space.rewrite(ix);
                    let value = self.index(space, &ix).wide(width);
                    if instr.dtype == DType::I32 {
                        format!("bitcast<{}>({value})", register.wide(width))
                    } else {
                        value
                    }
                }
                InstrOp::Valid(conds) => match self.condition(space, conds) {
                    None => splat("true", Register::Bool, width),
                    Some(condition) => splat_condition(&condition, width),
                },
                InstrOp::Load { buffer, index, valid } => {
                    let slot = self.storage(*buffer)?;
                    let index = space.rewrite(index);
                    self.load(space, slot, &index, valid, id, code)
                }
                InstrOp::Gather { value, .. } => self.gather(space, &instr.op, input(*value), id, code)?,
                InstrOp::Unary(op, a) => scalar::unary(*op, input(*a), width, &self.only(*op, *a, width))
                    .ok_or_else(|| self.error(format!("{op:?} does not exist for {}", input(*a))))?,
                InstrOp::Binary(op, a, b) => scalar::binary(
                    *op,
                    input(*a),
                    width,
                    &format!("v{a}"),
                    &self.other(*op, (*a, *b), input(*a), width),
                )
                .ok_or_else(|| self.error(format!("{op:?} does not exist for {}", input(*a))))?,
                InstrOp::Select(condition, a, b) => format!("select(v{b}, v{a}, v{condition})"),
                InstrOp::Cast(a) => self.cast(input(*a), instr.dtype, width, &format!("v{a}")),
                InstrOp::Bitcast(a) => format!("bitcast<{}>(v{a})", register.wide(width)),
                InstrOp::CheckIndex { value, bound, site } => {
                    let checked = (*value, self.number(*bound as u64), self.number(u64::from(*site)));
                    self.check_index(space, checked, register, id, code);
                    continue;
                }
                InstrOp::Random { counter, stream, seed, position } => {
                    let counter = space.rewrite(counter);
                    self.random(space, &counter, *stream, *seed, *position)
                }
                InstrOp::Reduced(n) if outside.narrow_reduced => splat(&format!("r{n}"), register, width),
                InstrOp::Reduced(n) => format!("r{n}"),
                InstrOp::Accumulator => "sum".into(),
            };
            let _ = writeln!(code, "    let v{id} = {expression};");
        }
        Ok(())
    }

    /// An element at a place that is moved by a value of this type.
    fn gather(
        &mut self,
        space: &mut Space,
        op: &InstrOp,
        dtype: DType,
        id: ValueId,
        code: &mut String,
    ) -> Result<String> {
        let InstrOp::Gather { buffer, base, stride, value, valid } = op else { unreachable!("a gather") };
        let width = space.width;
        let slot = self.storage(*buffer)?;
        let base = space.rewrite(base);
        let base = self.index(space, &base).wide(width);
        let stride = self.number(stride.unsigned_abs());
        let position = match dtype {
            DType::I32 => format!("bitcast<{}>(v{value})", Register::Uint.wide(width)),
            _ => format!("v{value}"),
        };
        // an index that was checked may have been kept in memory, and that not been written
        let last = self.storages[slot].elements.saturating_sub(1);
        let last = Expr::scalar(self.number(last as u64)).wide(width);
        let at = Expr { text: format!("min({base} + {position} * {stride}, {last})"), varying: width == 4 };
        let condition = self.condition(space, valid);
        Ok(self.load_at(space, slot, &at, condition, id, code))
    }

    /// An index as it is used, below a bound; what was outside is noted with a site.
    fn check_index(
        &mut self,
        space: &Space,
        (value, bound, site): (ValueId, String, String),
        register: Register,
        id: ValueId,
        code: &mut String,
    ) {
        let name = if register == Register::Int { "clamp_index_int" } else { "clamp_index_uint" };
        let status = self.status();
        let call = match space.width {
            1 => format!("{name}(v{value}, {bound})"),
            _ => format!("{name}_4(v{value}, vec4u({bound}))"),
        };
        let _ = writeln!(code, "    let v{id} = {call};");
        let outside = match (space.width, &space.active) {
            (1, _) => format!("v{id} != v{value}"),
            (_, None) => format!("any(v{id} != v{value})"),
            (_, Some(active)) => format!("any((v{id} != v{value}) & {active})"),
        };
        let _ = writeln!(code, "    if ({outside}) {{\n        atomicMax(&{status}, {site});\n    }}");
    }

    /// The conditions that do not hold everywhere, joined; `None` if there are none.
    fn condition(&mut self, space: &mut Space, conds: &[Cond]) -> Option<Expr> {
        let mut parts: Vec<Expr> = Vec::new();
        for cond in conds {
            let cond = cond.map(|ix| space.rewrite(ix));
            match cond.known(&space.axes) {
                Some(true) => continue,
                Some(false) => return Some(Expr::scalar("false")),
                None => {}
            }
            let (value, text) = match &cond {
                Cond::InRange(ix, size) => {
                    let value = self.index(space, ix);
                    let size = Expr::scalar(self.number(size.unsigned_abs()));
                    let text = format!("({} < {})", value.text, size.wide(if value.varying { 4 } else { 1 }));
                    (value, text)
                }
                Cond::Multiple(ix, by) => {
                    let rest = self.index(space, &ix.rem(*by, &space.axes));
                    let zero = Expr::scalar("0u").wide(if rest.varying { 4 } else { 1 });
                    let text = format!("({} == {zero})", rest.text);
                    (rest, text)
                }
            };
            parts.push(Expr { text, varying: value.varying });
        }
        let varying = parts.iter().any(|part| part.varying);
        let texts: Vec<String> =
            parts.iter().map(|part| if varying { splat_condition(part, 4) } else { part.text.clone() }).collect();
        let text = texts.join(if varying { " & " } else { " && " });
        match texts.len() {
            0 => None,
            1 => Some(Expr { text, varying }),
            _ => Some(Expr { text: format!("({text})"), varying }),
        }
    }

    /// An expression for the element at `index` (over the space's axes), 0 where not `valid`.
    fn load(
        &mut self,
        space: &mut Space,
        slot: usize,
        index: &Ix,
        valid: &[Cond],
        id: ValueId,
        code: &mut String,
    ) -> String {
        let condition = self.condition(space, valid);
        if space.width == 4
            && condition.as_ref().is_none_or(|condition| !condition.varying)
            && let Lanes::Aligned(first) = space.lanes(index)
        {
            let first = match first {
                First::Ix(ix) => self.index(space, &ix).text,
                First::Text(text) => text,
            };
            self.storages[slot].uses.load_4 = true;
            let zero = Register::of(self.storages[slot].dtype).wide(4);
            return match condition {
                None => format!("load4_{slot}({first})"),
                Some(Expr { text: condition, .. }) => {
                    let _ = writeln!(code, "    let c{id} = {condition};");
                    format!("select({zero}(), load4_{slot}(select(0u, {first}, c{id})), c{id})")
                }
            };
        }
        let at = self.index(space, index);
        self.load_at(space, slot, &at, condition, id, code)
    }

    /// An expression for the elements at `at`, single reads, 0 where the condition does not hold.
    fn load_at(
        &mut self,
        space: &Space,
        slot: usize,
        at: &Expr,
        condition: Option<Expr>,
        id: ValueId,
        code: &mut String,
    ) -> String {
        self.storages[slot].uses.load = true;
        let register = Register::of(self.storages[slot].dtype);
        let width = space.width;
        let at_varying = at.varying || condition.as_ref().is_some_and(|condition| condition.varying);
        let index_width = if at_varying { 4 } else { 1 };
        let index = match &condition {
            None => at.wide(index_width),
            Some(condition) => {
                let _ = writeln!(code, "    let c{id} = {};", splat_condition(condition, index_width));
                let zero = if at_varying { "vec4u()" } else { "0u" };
                format!("select({zero}, {}, c{id})", at.wide(index_width))
            }
        };
        let value = if at_varying {
            let _ = writeln!(code, "    let at{id} = {index};");
            let reads = LANES.map(|lane| format!("load_{slot}(at{id}.{lane})"));
            format!("{}({})", register.wide(4), reads.join(", "))
        } else {
            splat(&format!("load_{slot}({index})"), register, width)
        };
        if condition.is_none() {
            return value;
        }
        let condition = if width == 4 && !at_varying { format!("vec4<bool>(c{id})") } else { format!("c{id}") };
        format!("select({}, {value}, {condition})", splat(register.zero(), register, width))
    }

    /// The second operand of `op`, where needed so that compilers do not see what it is: they take `x - x` for 0, and
    /// NVIDIA's takes `y * (x / y)` for x and `x / (x * y)` for 1 / y, which is wrong of 0 and infinity.
    fn other(&mut self, op: Binary, (a, b): (ValueId, ValueId), dtype: DType, width: usize) -> String {
        let is_hidden = dtype.is_float() && (op == Binary::Div || (op == Binary::Sub && a == b));
        if is_hidden { self.unseen(b, width) } else { format!("v{b}") }
    }

    /// The operand of `op`, which is a divisor if it is inverted.
    fn only(&mut self, op: Unary, a: ValueId, width: usize) -> String {
        if op == Unary::Recip { self.unseen(a, width) } else { format!("v{a}") }
    }

    /// A float that compilers do not know.
    fn unseen(&mut self, value: ValueId, width: usize) -> String {
        let (float, bits) = (Register::Float.wide(width), Register::Uint.wide(width));
        let zero = splat(&self.hidden(0), Register::Uint, width);
        format!("bitcast<{float}>(bitcast<{bits}>(v{value}) ^ {zero})")
    }

    fn cast(&mut self, from: DType, to: DType, width: usize, a: &str) -> String {
        let four = if width == 4 { "_4" } else { "" };
        let to_type = Register::of(to).wide(width);
        let bytes = if width == 4 { "vec4u(255u)" } else { "255u" };
        match (Register::of(from), to) {
            (Register::Bool, DType::Bool) => a.into(),
            (Register::Bool, _) => {
                let one = self.constant(Scalar::new(to, 1.0), width);
                let zero = match Register::of(to) {
                    // a mask's: what it is multiplied with may be NaN
                    Register::Float => splat(&self.hidden_float(0.0), Register::Float, width),
                    _ => self.constant(Scalar::new(to, 0.0), width),
                };
                format!("select({zero}, {one}, {a})")
            }
            (Register::Float, DType::Bool) => format!("float_to_bool{four}({a})"),
            (from, DType::Bool) => format!("({a} != {}())", from.wide(width)),
            (Register::Float, DType::F32) => a.into(),
            (Register::Float, DType::F16) if from == DType::F16 => a.into(),
            (Register::Float, DType::F16) => self.round_to_half(a, width),
            (_, DType::F32) => format!("{to_type}({a})"),
            (_, DType::F16) => self.round_to_half(&format!("{to_type}({a})"), width),
            (Register::Float, DType::I32) => format!("float_to_int{four}({a})"),
            (Register::Float, DType::U32) => format!("float_to_uint{four}({a})"),
            (Register::Float, DType::U8) => format!("float_to_byte{four}({a})"),
            (_, DType::I32 | DType::U32) => format!("{to_type}({a})"),
            (_, DType::U8) if from == DType::U8 => a.into(),
            (_, DType::U8) => format!("({to_type}({a}) & {bytes})"),
        }
    }

    fn random(&mut self, space: &mut Space, counter: &Ix, stream: u32, seed: ValueId, position: ValueId) -> String {
        let stream = self.number(u64::from(stream));
        if space.width == 1 {
            let counter = self.index(space, counter).text;
            return format!("random_word({counter}, {stream}, v{position}, v{seed})");
        }
        if let Lanes::Aligned(first) = space.lanes(counter) {
            let first = match first {
                First::Ix(ix) => self.index(space, &ix).text,
                First::Text(text) => text,
            };
            return format!("philox({first} >> 2u, {stream}, v{position}.x, v{seed}.x)");
        }
        let counter = self.index(space, counter).wide(4);
        format!("random_word_4({counter}, vec4u({stream}), v{position}, v{seed})")
    }

    /// Appends the write of `v{value}`. `reaches_end`: the four-lane writes of this store may spill over the last point
    /// because the buffer ends there, and its padding is nobody's.
    pub(crate) fn store(
        &mut self,
        space: &mut Space,
        store: &Store,
        reaches_end: bool,
        code: &mut String,
    ) -> Result<()> {
        let slot = self.storage(store.buffer)?;
        let value = format!("v{}", store.value);
        let index = space.rewrite(&store.index);
        if space.width == 1 {
            let at = self.index(space, &index).text;
            self.storages[slot].uses.store = true;
            let _ = writeln!(code, "    store_{slot}({at}, {value});");
            return Ok(());
        }
        if let Lanes::Aligned(first) = space.lanes(&index) {
            let first = match first {
                First::Ix(ix) => self.index(space, &ix).text,
                First::Text(text) => text,
            };
            self.storages[slot].uses.store_4 = true;
            let whole = format!("store4_{slot}({first}, {value});");
            let Some(active) = space.active.clone().filter(|_| !reaches_end) else {
                let _ = writeln!(code, "    {whole}");
                return Ok(());
            };
            self.storages[slot].uses.store_tail = true;
            let _ = writeln!(code, "    if (all({active})) {{\n        {whole}\n    }} else {{");
            for (number, lane) in LANES.iter().enumerate().take(3) {
                let _ = writeln!(
                    code,
                    "        if ({active}.{lane}) {{\n            store_{slot}({first} + {number}u, {value}.{lane});\n        }}"
                );
            }
            code.push_str("    }\n");
            return Ok(());
        }
        let at = self.index(space, &index).wide(4);
        self.storages[slot].uses.store = true;
        let _ = writeln!(code, "    {{\n        let at = {at};");
        for lane in LANES {
            let write = format!("store_{slot}(at.{lane}, {value}.{lane});");
            let _ = match &space.active {
                None => writeln!(code, "        {write}"),
                Some(active) => writeln!(code, "        if ({active}.{lane}) {{\n            {write}\n        }}"),
            };
        }
        code.push_str("    }\n");
        Ok(())
    }
}

/// True if value `id` of the tape is a zero that something is multiplied with or divided by.
fn is_zero_factor(tape: &Tape, id: ValueId) -> bool {
    let is_zero = matches!(&tape.instrs[id].op, InstrOp::Const(zero) if zero.dtype.is_float() && zero.to_f64() == 0.0);
    is_zero
        && tape.instrs.iter().any(|instr| match instr.op {
            InstrOp::Binary(Binary::Mul | Binary::Div, a, b) => a == id || b == id,
            _ => false,
        })
}

/// 32 bits read as a value of `dtype`.
fn from_bits(bits: &str, dtype: DType) -> String {
    match dtype {
        DType::F32 => format!("bitcast<f32>({bits})"),
        DType::F16 => format!("half_value({bits} & 65535u)"),
        DType::I32 => format!("bitcast<i32>({bits})"),
        DType::U32 => bits.into(),
        DType::U8 => format!("({bits} & 255u)"),
        DType::Bool => format!("({bits} != 0u)"),
    }
}

fn splat_condition(condition: &Expr, width: usize) -> String {
    if condition.varying || width == 1 { condition.text.clone() } else { format!("vec4<bool>({})", condition.text) }
}
