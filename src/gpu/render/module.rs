//! One kernel's module under construction: numbers, buffers and the helper functions that read and write them.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::plan::{BufferId, Plan};

use super::scalar::{LANES, Register};
use super::{Binding, Capabilities, Launch, Uniforms, library};

/// What the generated code does with a buffer; decides how it is declared.
#[derive(Clone, Copy, Default)]
pub(crate) struct Uses {
    /// Reads of one element.
    pub load: bool,
    /// The same in a buffer that is else read by fours.
    pub load_beside: bool,
    /// Reads of four aligned elements.
    pub load_4: bool,
    /// Writes of one element.
    pub store: bool,
    /// Writes of four aligned elements.
    pub store_4: bool,
    /// Writes of the last one to three elements beside writes of four.
    pub store_tail: bool,
}

impl Uses {
    fn none(self) -> bool {
        !(self.load || self.load_beside || self.load_4 || self.store || self.store_4 || self.store_tail)
    }
}

/// A buffer as the kernel sees it: its window, or its windows if it is larger than a binding may be.
pub(crate) struct Storage {
    /// Its number in the plan.
    pub buffer: BufferId,
    /// Its elements' type.
    pub dtype: DType,
    /// First byte and bytes of each window.
    pub windows: Vec<(u64, u64)>,
    /// The element that indices count from: the first of a single window, else 0.
    pub first: usize,
    /// Elements of the buffer from there on.
    pub elements: usize,
    /// True if the kernel writes it.
    pub writable: bool,
    /// What the kernel does with it.
    pub uses: Uses,
}

/// The parts of a kernel's module that its code fills while it is generated.
pub(crate) struct Module<'a> {
    pub caps: &'a Capabilities,
    pub label: &'a str,
    literal: bool,
    sizes: Vec<u32>,
    pub storages: Vec<Storage>,
    host_values: usize,
    uniforms: Uniforms,
    status: bool,
    half: bool,
}

/// How often loops run that Mesa unrolls, but for those of so few rounds that a loop is no less to compile.
const UNROLLED: RangeInclusive<usize> = 5..=32;

impl<'a> Module<'a> {
    pub(crate) fn new(plan: &'a Plan, caps: &'a Capabilities, label: &'a str, storages: Vec<Storage>) -> Self {
        Self {
            caps,
            label,
            literal: plan.literal_sizes,
            sizes: Vec::new(),
            storages,
            host_values: 0,
            uniforms: if plan.uniforms <= caps.max_uniforms { Uniforms::Uniform } else { Uniforms::Storage },
            status: false,
            half: false,
        }
    }

    /// Reads all numbers from the uniform, so that kernels of other sizes share the text.
    pub(crate) fn share_between_sizes(&mut self) {
        self.literal = false;
    }

    /// Whether the text is for these sizes alone.
    pub(crate) fn is_literal(&self) -> bool {
        self.literal
    }

    /// A number that depends on sizes, as a u32 expression.
    pub(crate) fn number(&mut self, value: u64) -> String {
        if self.literal { format!("{}u", value as u32) } else { self.hidden(value as u32) }
    }

    /// How often a loop runs. Where a driver makes machine code of each read and write for each lane, as llvmpipe does for
    /// milliseconds, it is not told how often a short loop runs, as it would write its body so many times.
    pub(crate) fn rounds(&mut self, count: usize) -> String {
        let would_unroll = self.caps.software && UNROLLED.contains(&count);
        if would_unroll { self.hidden(count as u32) } else { self.number(count as u64) }
    }

    /// A number that the compiler does not see, as a u32 expression.
    pub(crate) fn hidden(&mut self, value: u32) -> String {
        self.sizes.push(value);
        let at = self.sizes.len() - 1;
        format!("sizes[{}].{}", at / 4, LANES[at % 4])
    }

    /// The same, as an f32 expression.
    pub(crate) fn hidden_float(&mut self, value: f32) -> String {
        format!("bitcast<f32>({})", self.hidden(value.to_bits()))
    }

    /// Host value number `n` as a u32 expression.
    pub(crate) fn host_value(&mut self, n: usize) -> String {
        self.host_values = self.host_values.max(n + 1);
        format!("host[{}].{}", n / 4, LANES[n % 4])
    }

    /// The name of the status word.
    pub(crate) fn status(&mut self) -> &'static str {
        self.status = true;
        "status"
    }

    /// The text names f16, though perhaps no buffer has it.
    pub(crate) fn use_f16(&mut self) {
        self.half = true;
    }

    /// `value` (float registers) rounded to half precision.
    pub(crate) fn round_to_half(&mut self, value: &str, width: usize) -> String {
        // Not by way of f16: Mesa's compiler takes `f32(f16(x))` for x (seen with 26.2).
        if width == 1 { format!("round_to_half({value})") } else { format!("round_to_half_4({value})") }
    }

    /// Fails if a buffer is written through several windows: no cut made its writes small enough.
    pub(crate) fn check_windows(&self) -> Result<()> {
        self.largest_in_windows(|storage| storage.writable).map_or(Ok(()), Err)
    }

    /// The error for the largest of these buffers that has several windows, if there is any.
    fn largest_in_windows(&self, which: impl Fn(&Storage) -> bool) -> Option<Error> {
        let bytes = |storage: &Storage| storage.windows.iter().map(|window| window.1).sum();
        let large = self.storages.iter().filter(|storage| storage.windows.len() > 1 && which(storage));
        let bytes = large.map(bytes).max()?;
        Some(Error::BindingTooLarge { kernel: self.label.into(), bytes, limit_bytes: self.caps.max_binding_bytes })
    }

    /// The error for a kernel that cannot be rendered.
    pub(crate) fn error(&self, message: impl Into<String>) -> Error {
        Error::Kernel { kernel: self.label.into(), message: message.into() }
    }

    /// The position of a buffer among the storages.
    pub(crate) fn storage(&self, buffer: BufferId) -> Result<usize> {
        self.storages
            .iter()
            .position(|storage| storage.buffer == buffer)
            .ok_or_else(|| self.error(format!("buffer {buffer} is used but not listed in `reads` or `writes`")))
    }

    /// True if several elements of the type share a u32 word that cannot be written in parts.
    pub(crate) fn packed(&self, dtype: DType) -> bool {
        match dtype {
            DType::U8 | DType::Bool => true,
            DType::F16 => !self.caps.f16,
            DType::F32 | DType::I32 | DType::U32 => false,
        }
    }

    /// `width` times the value. Infinities and NaN are none to the compiler: Metal's may take `select(0.0, inf, c) + x`
    /// for `x`, as it computes as if there were no infinity. Kernels that sizes share are also shared by what differs
    /// in a number alone, such as a coefficient that grows with every step of uncaptured code.
    pub(crate) fn constant(&mut self, scalar: Scalar, width: usize) -> String {
        let register = Register::of(scalar.dtype);
        let in_text = self.literal || is_common(scalar);
        let text = match register {
            Register::Float => {
                let value = scalar.to_f64() as f32;
                if !value.is_finite() || !in_text {
                    self.hidden_float(value)
                } else if value.is_normal() && value.abs() < f32::MAX || value.to_bits() == 0 {
                    // the shortest decimal of the largest number is larger than it, which Tint refuses
                    format!("{value:?}f")
                } else {
                    format!("from_bits({}u)", value.to_bits())
                }
            }
            Register::Int if in_text => format!("i32({})", scalar.bits.cast_signed()),
            Register::Int => format!("bitcast<i32>({})", self.hidden(scalar.bits)),
            Register::Uint if in_text => format!("{}u", scalar.bits),
            Register::Uint => self.hidden(scalar.bits),
            Register::Bool => (scalar.bits != 0).to_string(),
        };
        splat(&text, register, width)
    }

    /// Puts family `path` together with the generated `slots`, declarations and library functions.
    pub(crate) fn finish(mut self, path: &str, slots: &[(&str, &str)], groups: [u32; 3]) -> Result<Launch> {
        let mut declarations = String::new();
        let mut bindings = Vec::new();
        for slot in 0..self.storages.len() {
            // A load may have been left out, such as one whose condition never holds.
            if self.storages[slot].uses.none() {
                continue;
            }
            self.declare(slot, &mut declarations, &mut bindings);
        }
        let of_host_values = usize::from(self.host_values > 0 && self.uniforms == Uniforms::Storage);
        if bindings.len() + of_host_values > self.caps.max_storage_buffers as usize {
            // the planner counts buffers; only their windows can be too many
            return Err(self.largest_in_windows(|storage| !storage.uses.none()).unwrap_or_else(|| {
                self.error(format!(
                    "it binds {} storage buffers beside the status word, this adapter allows {}",
                    bindings.len() + of_host_values,
                    self.caps.max_storage_buffers
                ))
            }));
        }
        let mut next = bindings.len();
        let mut bind = |kind: &str, name: &str, ty: String| {
            let _ = writeln!(declarations, "@group(0) @binding({next}) var<{kind}> {name}: {ty};");
            next += 1;
        };
        if !self.sizes.is_empty() {
            bind("uniform", "sizes", format!("array<vec4u, {}>", self.sizes.len().div_ceil(4)));
        }
        let uniforms = (self.host_values > 0).then_some(self.uniforms);
        if let Some(uniforms) = uniforms {
            let of_fixed_length = format!("array<vec4u, {}>", self.host_values.div_ceil(4));
            match uniforms {
                Uniforms::Uniform => bind("uniform", "host", of_fixed_length),
                Uniforms::Storage => bind("storage, read", "host", "array<vec4u>".into()),
            }
        }
        if self.status {
            bind("storage, read_write", "status", "atomic<u32>".into());
        }
        let mut slots = slots.to_vec();
        slots.push(("bindings", &declarations));
        let mut wgsl = library::fill(path, &slots);
        library::link(&mut wgsl);
        if self.half || self.caps.f16 && self.storages.iter().any(|storage| storage.dtype == DType::F16) {
            wgsl.insert_str(0, "enable f16;\n");
        }
        self.sizes.resize(self.sizes.len().next_multiple_of(4), 0);
        Ok(Launch {
            label: self.label.into(),
            wgsl,
            foreign: None,
            bindings,
            sizes: self.sizes,
            uniforms,
            uses_status: self.status,
            groups,
        })
    }

    /// Declares storage number `slot` and the helper functions that the code calls.
    fn declare(&mut self, slot: usize, text: &mut String, bindings: &mut Vec<Binding>) {
        let storage = &self.storages[slot];
        let (dtype, uses) = (storage.dtype, storage.uses);
        let windows = storage.windows.clone();
        let first_bytes = storage.first as u64 * dtype.size_bytes() as u64;
        let layout = self.layout(slot);
        let access = if storage.writable { "read_write" } else { "read" };
        for (number, &(offset_bytes, size_bytes)) in windows.iter().enumerate() {
            let _ = writeln!(
                text,
                "@group(0) @binding({}) var<storage, {access}> b{slot}_{number}: array<{}>;",
                bindings.len(),
                layout.element(dtype)
            );
            bindings.push(Binding { buffer: storage.buffer, offset_bytes, size_bytes, writable: storage.writable });
        }
        let register = Register::of(dtype);
        let bytes = dtype.size_bytes() as u64;
        let mut function = |head: String, body: &dyn Fn(&str, &str) -> String, module: &mut Self| {
            let _ = writeln!(text, "fn {head} {{");
            for (number, window) in windows.iter().enumerate() {
                let first = (window.0 - first_bytes) / bytes;
                let index = if first == 0 { "i".to_owned() } else { format!("(i - {})", module.number(first)) };
                let access = body(&format!("b{slot}_{number}"), &index);
                if number + 1 < windows.len() {
                    // Writes have one window, so only reads, which return, choose.
                    let end = module.number(first + window.1 / bytes);
                    let _ = writeln!(text, "    if (i < {end}) {{\n        {access}\n    }}");
                } else {
                    let _ = writeln!(text, "    {access}");
                }
            }
            text.push_str("}\n");
        };
        if uses.load || uses.load_beside {
            let head = format!("load_{slot}(i: u32) -> {}", register.name());
            function(head, &|b, i| format!("return {};", layout.load(dtype, b, i)), self);
        }
        if uses.load_4 {
            let head = format!("load4_{slot}(i: u32) -> {}", register.wide(4));
            function(head, &|b, i| format!("return {};", layout.load_4(dtype, b, i)), self);
        }
        if uses.store || uses.store_tail {
            let head = format!("store_{slot}(i: u32, v: {})", register.name());
            function(head, &|b, i| layout.store(dtype, b, i), self);
        }
        if uses.store_4 {
            let head = format!("store4_{slot}(i: u32, v: {})", register.wide(4));
            function(head, &|b, i| layout.store_4(dtype, b, i), self);
        }
    }

    fn layout(&self, slot: usize) -> Layout {
        let storage = &self.storages[slot];
        let uses = storage.uses;
        if self.packed(storage.dtype) {
            if uses.store || uses.store_tail { Layout::Atomic } else { Layout::Words }
        } else if uses.load || uses.store {
            Layout::Elements
        } else {
            Layout::Vectors
        }
    }
}

/// How a storage is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// `array<T>`
    Elements,
    /// `array<vec4<T>>`, because every access is to four aligned elements (but for the tail)
    Vectors,
    /// `array<u32>` of packed elements
    Words,
    /// The same, where single elements are written: other invocations may own the rest of the word.
    Atomic,
}

impl Layout {
    fn element(self, dtype: DType) -> String {
        let scalar = match dtype {
            DType::F16 => "f16",
            dtype => Register::of(dtype).name(),
        };
        match self {
            Self::Elements => scalar.into(),
            Self::Vectors => format!("vec4<{scalar}>"),
            Self::Words => "u32".into(),
            Self::Atomic => "atomic<u32>".into(),
        }
    }

    fn word(self, b: &str, index: &str) -> String {
        if self == Self::Atomic { format!("atomicLoad(&{b}[{index}])") } else { format!("{b}[{index}]") }
    }

    fn load(self, dtype: DType, b: &str, i: &str) -> String {
        match (self, dtype) {
            (Self::Elements, DType::F16) => format!("f32({b}[{i}])"),
            (Self::Elements, _) => format!("{b}[{i}]"),
            (Self::Vectors, DType::F16) => format!("f32({b}[{i} >> 2u][{i} & 3u])"),
            (Self::Vectors, _) => format!("{b}[{i} >> 2u][{i} & 3u]"),
            (_, DType::F16) => format!("half_of_word({}, {i})", self.word(b, &format!("{i} >> 1u"))),
            (_, DType::Bool) => format!("byte_of_word({}, {i}) != 0u", self.word(b, &format!("{i} >> 2u"))),
            _ => format!("byte_of_word({}, {i})", self.word(b, &format!("{i} >> 2u"))),
        }
    }

    fn load_4(self, dtype: DType, b: &str, i: &str) -> String {
        let cast = |text: String| if dtype == DType::F16 { format!("vec4f({text})") } else { text };
        match (self, dtype) {
            (Self::Vectors, _) => cast(format!("{b}[{i} >> 2u]")),
            (Self::Elements, _) => {
                let ty = if dtype == DType::F16 { "f16" } else { Register::of(dtype).name() };
                cast(format!("vec4<{ty}>({b}[{i}], {b}[{i} + 1u], {b}[{i} + 2u], {b}[{i} + 3u])"))
            }
            (_, DType::F16) => {
                let (low, high) = (self.word(b, &format!("{i} >> 1u")), self.word(b, &format!("({i} >> 1u) + 1u")));
                format!("halves_of_words({low}, {high})")
            }
            (_, DType::Bool) => format!("bytes_of_word({}) != vec4u()", self.word(b, &format!("{i} >> 2u"))),
            _ => format!("bytes_of_word({})", self.word(b, &format!("{i} >> 2u"))),
        }
    }

    fn store(self, dtype: DType, b: &str, i: &str) -> String {
        match (self, dtype) {
            (Self::Elements, DType::F16) => format!("{b}[{i}] = f16(v);"),
            (Self::Elements, _) => format!("{b}[{i}] = v;"),
            (Self::Vectors, DType::F16) => format!("{b}[{i} >> 2u][{i} & 3u] = f16(v);"),
            (Self::Vectors, _) => format!("{b}[{i} >> 2u][{i} & 3u] = v;"),
            (_, dtype) => {
                let (shift, lane_mask, scale, mask, bits) = match dtype {
                    DType::F16 => (1, 1, 16, 65535, "half_bits(v)"),
                    DType::Bool => (2, 3, 8, 255, "select(0u, 1u, v)"),
                    _ => (2, 3, 8, 255, "(v & 255u)"),
                };
                // Two steps are enough: nobody else touches these bits.
                format!(
                    "let shift = ({i} & {lane_mask}u) * {scale}u;\n    \
                     atomicAnd(&{b}[{i} >> {shift}u], ~({mask}u << shift));\n    \
                     atomicOr(&{b}[{i} >> {shift}u], {bits} << shift);"
                )
            }
        }
    }

    fn store_4(self, dtype: DType, b: &str, i: &str) -> String {
        let put = |index: &str, word: &str| match self {
            Self::Atomic => format!("atomicStore(&{b}[{index}], {word});"),
            _ => format!("{b}[{index}] = {word};"),
        };
        match (self, dtype) {
            (Self::Vectors, DType::F16) => format!("{b}[{i} >> 2u] = vec4<f16>(v);"),
            (Self::Vectors, _) => format!("{b}[{i} >> 2u] = v;"),
            (Self::Elements, _) => {
                let cast =
                    |lane: &str| if dtype == DType::F16 { format!("f16(v.{lane})") } else { format!("v.{lane}") };
                let line = |(at, lane): (usize, &&str)| format!("{b}[{i} + {at}u] = {};", cast(lane));
                LANES.iter().enumerate().map(line).collect::<Vec<_>>().join(" ")
            }
            (_, DType::F16) => format!(
                "{} {}",
                put(&format!("{i} >> 1u"), "word_of_halves(v.x, v.y)"),
                put(&format!("({i} >> 1u) + 1u"), "word_of_halves(v.z, v.w)")
            ),
            (_, DType::Bool) => put(&format!("{i} >> 2u"), "word_of_bytes(select(vec4u(), vec4u(1u), v))"),
            _ => put(&format!("{i} >> 2u"), "word_of_bytes(v)"),
        }
    }
}

/// True of the numbers that formulas are made of, which compilers can do without or compute with at no cost.
fn is_common(scalar: Scalar) -> bool {
    [-1.0, 0.0, 0.5, 1.0, 2.0].contains(&scalar.to_f64())
}

/// `text` as `width` equal values.
pub(crate) fn splat(text: &str, register: Register, width: usize) -> String {
    if width == 1 { text.into() } else { format!("vec4<{}>({text})", register.name()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_exact_in_every_compiler() {
        let plan = Plan { literal_sizes: true, ..Plan::default() };
        let mut module = Module::new(&plan, &Capabilities::GENERAL, "kernel", Vec::new());
        let mut text = |value: f32| module.constant(Scalar::new(DType::F32, f64::from(value)), 1);
        assert_eq!(text(0.1), "0.1f");
        assert_eq!(text(f32::MAX.next_down()), "3.4028233e38f");
        for value in [f32::MAX, f32::MIN, -0.0, 1e-40] {
            assert_eq!(text(value), format!("from_bits({}u)", value.to_bits()));
        }
        assert_eq!(text(f32::INFINITY), "bitcast<f32>(sizes[0].x)");
        assert_eq!(text(f32::NEG_INFINITY), "bitcast<f32>(sizes[0].y)");
        assert_eq!(module.sizes, [f32::INFINITY, f32::NEG_INFINITY].map(f32::to_bits));
    }

    #[test]
    fn software_is_not_told_how_long_short_loops_are() {
        let plan = Plan { literal_sizes: true, ..Plan::default() };
        let software = Capabilities { software: true, ..Capabilities::GENERAL };
        let rounds = |caps, count| Module::new(&plan, caps, "kernel", Vec::new()).rounds(count);
        assert_eq!([4, 10, 32, 33].map(|count| rounds(&software, count)), ["4u", "sizes[0].x", "sizes[0].x", "33u"]);
        assert_eq!(rounds(&Capabilities::GENERAL, 10), "10u");
    }

    #[test]
    fn kernels_of_all_sizes_share_their_text_between_numbers() {
        let text_and_sizes = |factor: f64, count: f64| {
            let plan = Plan { literal_sizes: false, ..Plan::default() };
            let mut module = Module::new(&plan, &Capabilities::GENERAL, "kernel", Vec::new());
            let numbers = [(DType::F32, factor), (DType::F32, 1.0), (DType::I32, -count), (DType::U32, count)];
            let text = numbers.map(|(dtype, value)| module.constant(Scalar::new(dtype, value), 4));
            (text, module.sizes)
        };
        let (text, sizes) = text_and_sizes(0.3, 7.0);
        let three = ["vec4<f32>(bitcast<f32>(sizes[0].x))", "vec4<f32>(1.0f)", "vec4<i32>(bitcast<i32>(sizes[0].y))"];
        assert_eq!(text[..3], three);
        assert_eq!(text[3], "vec4<u32>(sizes[0].z)");
        assert_eq!(sizes, [0.3_f32.to_bits(), (-7_i32).cast_unsigned(), 7]);
        let (other_text, other_sizes) = text_and_sizes(-2.5, 9.0);
        assert_eq!(other_text, text);
        assert_ne!(other_sizes, sizes);
    }
}
