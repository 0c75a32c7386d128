//! What a kernel's WGSL binds, as naga sees it.

use naga::valid::{Capabilities, GlobalUse, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, ArraySize, GlobalVariable, Handle, Module, ScalarKind, StorageAccess, TypeInner, VectorSize};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// A checked kernel text.
#[derive(Debug)]
pub(crate) struct Interface {
    /// The text.
    pub wgsl: String,
    /// The entry point.
    pub entry: String,
    /// Invocations of a workgroup; 1 where the text leaves them open.
    pub workgroup: u64,
    /// Bytes of memory that a workgroup shares.
    pub workgroup_bytes: u64,
    /// Whether it needs f16 in shaders.
    pub half: bool,
    /// The storage bindings: inputs, then outputs.
    pub bindings: Vec<Binding>,
    /// The parameters.
    pub uniform: Uniform,
}

/// The uniform binding; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct Uniform {
    /// Its members in order.
    pub members: Vec<Member>,
    /// Its words.
    pub words: usize,
}

/// A member of the uniform.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name.
    pub name: String,
    /// Its type, of 32 bits.
    pub dtype: DType,
    /// Which word of the uniform it is.
    pub word: usize,
}

/// One storage binding.
#[derive(Debug)]
pub(crate) struct Binding {
    /// Its name in the text.
    pub name: String,
    /// The type of its scalars in the text.
    pub scalar: DType,
    /// Bytes of an element: a scalar or a vector.
    pub unit: usize,
    /// Elements, where the text fixes them.
    pub fixed: Option<usize>,
}

impl Binding {
    /// Whether it takes tensors of this type.
    pub(crate) fn takes(&self, dtype: DType) -> bool {
        match self.scalar {
            // packed
            DType::U32 => matches!(dtype, DType::U32 | DType::U8 | DType::Bool | DType::F16),
            scalar => scalar == dtype,
        }
    }

    /// Bytes bound for this many bytes of elements: whole units and words.
    pub(crate) fn bound_bytes(&self, bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(self.unit.max(4))
    }
}

/// A problem at a place in the text.
struct Fault {
    line: Option<u32>,
    message: String,
}

/// Checks the text of kernel `name` with this many inputs and outputs.
pub(super) fn check((name, wgsl, entry): (&str, &str, &str), inputs: usize, outputs: usize) -> Result<Interface> {
    reflect(wgsl, entry, inputs, outputs).map_err(|fault| Error::CustomKernel {
        kernel: name.into(),
        line: fault.line,
        message: fault.message,
    })
}

fn reflect(wgsl: &str, entry: &str, inputs: usize, outputs: usize) -> Result<Interface, Fault> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| Fault {
        line: error.location(wgsl).map(|place| place.line_number),
        message: error.emit_to_string(wgsl),
    })?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).map_err(|error| {
        Fault { line: error.location(wgsl).map(|place| place.line_number), message: error.emit_to_string(wgsl) }
    })?;
    let text = Text { wgsl, module: &module, info: &info, entry: text_entry(&module, entry)? };
    let bindings = (0..inputs + outputs).map(|number| text.storage(number as u32, number >= inputs));
    let bindings = bindings.collect::<Result<_, _>>()?;
    let uniform = text.uniform((inputs + outputs) as u32)?;
    text.nothing_else((inputs + outputs + usize::from(uniform.words > 0)) as u32)?;
    let half = |inner: &TypeInner| inner.scalar().is_some_and(|scalar| dtype(scalar) == Some(DType::F16));
    Ok(Interface {
        wgsl: wgsl.into(),
        entry: entry.into(),
        workgroup: module.entry_points[text.entry].workgroup_size.iter().map(|&size| u64::from(size)).product(),
        workgroup_bytes: text.workgroup_bytes(),
        half: module.types.iter().any(|(_, ty)| half(&ty.inner)),
        bindings,
        uniform,
    })
}

fn text_entry(module: &Module, entry: &str) -> Result<usize, Fault> {
    let compute = |point: &&naga::EntryPoint| point.stage == naga::ShaderStage::Compute;
    let position = module.entry_points.iter().position(|point| compute(&point) && point.name == entry);
    position.ok_or_else(|| {
        let names: Vec<&str> = module.entry_points.iter().filter(compute).map(|point| point.name.as_str()).collect();
        Fault { line: None, message: format!("it has no compute entry point `{entry}`, only {names:?}") }
    })
}

struct Text<'a> {
    wgsl: &'a str,
    module: &'a Module,
    info: &'a ModuleInfo,
    entry: usize,
}

impl Text<'_> {
    /// A problem with a variable.
    fn fault(&self, variable: Handle<GlobalVariable>, message: impl std::fmt::Display) -> Fault {
        let span = self.module.global_variables.get_span(variable);
        let name = self.module.global_variables[variable].name.as_deref().unwrap_or_default();
        Fault { line: Some(span.location(self.wgsl).line_number), message: format!("`{name}` {message}") }
    }

    fn is_used(&self, variable: Handle<GlobalVariable>) -> bool {
        self.info.get_entry_point(self.entry)[variable] != GlobalUse::empty()
    }

    /// The variable with this binding number in group 0: the one that the entry point uses, if there are several.
    fn bound(&self, number: u32) -> Option<Handle<GlobalVariable>> {
        let here = |variable: &GlobalVariable| {
            variable.binding.is_some_and(|place| (place.group, place.binding) == (0, number))
        };
        let mut found: Vec<_> = self.module.global_variables.iter().filter(|(_, v)| here(v)).map(|(h, _)| h).collect();
        found.sort_by_key(|&variable| !self.is_used(variable));
        found.first().copied()
    }

    fn storage(&self, number: u32, written: bool) -> Result<Binding, Fault> {
        let (kind, access) = if written { ("output", "read_write") } else { ("input", "read") };
        let variable = self.bound(number).ok_or_else(|| Fault {
            line: None,
            message: format!("binding {number} of group 0 is missing: an {kind}, `var<storage, {access}>`"),
        })?;
        let global = &self.module.global_variables[variable];
        let is_written = match global.space {
            AddressSpace::Storage { access } => Some(access.contains(StorageAccess::STORE)),
            _ => None,
        };
        if is_written != Some(written) {
            return Err(self.fault(variable, format!("at binding {number} is an {kind}: `var<storage, {access}>`")));
        }
        let (scalar, unit, fixed) = self.layout(variable, global)?;
        Ok(Binding { name: global.name.clone().unwrap_or_default(), scalar, unit, fixed })
    }

    /// Scalar type, bytes of an element and number of elements.
    fn layout(
        &self,
        variable: Handle<GlobalVariable>,
        global: &GlobalVariable,
    ) -> Result<(DType, usize, Option<usize>), Fault> {
        let inner = |ty| &self.module.types[ty].inner;
        let (element, fixed) = match *inner(global.ty) {
            TypeInner::Array { base, size: ArraySize::Dynamic, .. } => (inner(base), None),
            TypeInner::Array { base, size: ArraySize::Constant(size), .. } => (inner(base), Some(size.get() as usize)),
            ref single => (single, Some(1)),
        };
        let (scalar, lanes) = match *element {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => (dtype(scalar), 1),
            TypeInner::Vector { size: VectorSize::Bi, scalar } => (dtype(scalar), 2),
            TypeInner::Vector { size: VectorSize::Quad, scalar } => (dtype(scalar), 4),
            _ => (None, 0),
        };
        let scalar = scalar.ok_or_else(|| {
            self.fault(variable, "is neither of scalars (f32, i32, u32, f16) nor of vectors of 2 or 4 of them")
        })?;
        Ok((scalar, lanes * scalar.size_bytes(), fixed))
    }

    /// The uniform at this binding, if there is one.
    fn uniform(&self, number: u32) -> Result<Uniform, Fault> {
        let Some(variable) = self.bound(number) else { return Ok(Uniform::default()) };
        let global = &self.module.global_variables[variable];
        if global.space != AddressSpace::Uniform {
            return Err(self.fault(variable, format!("at binding {number} is neither an input nor an output")));
        }
        let of_words = |name: &str, ty, offset: u32| {
            let inner: &TypeInner = &self.module.types[ty].inner;
            let word = match inner {
                TypeInner::Scalar(scalar) => dtype(*scalar).filter(|dtype| dtype.size_bytes() == 4),
                _ => None,
            };
            let word = word
                .ok_or_else(|| self.fault(variable, format!("has `{name}`, which is neither f32 nor i32 nor u32")))?;
            Ok(Member { name: name.to_owned(), dtype: word, word: offset as usize / 4 })
        };
        match &self.module.types[global.ty].inner {
            TypeInner::Struct { members, span } => {
                let members = members.iter();
                let members = members.map(|m| of_words(m.name.as_deref().unwrap_or_default(), m.ty, m.offset));
                Ok(Uniform { members: members.collect::<Result<_, _>>()?, words: *span as usize / 4 })
            }
            _ => {
                let single = of_words(global.name.as_deref().unwrap_or_default(), global.ty, 0)?;
                Ok(Uniform { members: vec![single], words: 1 })
            }
        }
    }

    /// Bytes of the shared variables that the entry point uses, which wgpu does not check.
    fn workgroup_bytes(&self) -> u64 {
        let variables = self.module.global_variables.iter();
        let shared = variables.filter(|&(variable, v)| v.space == AddressSpace::WorkGroup && self.is_used(variable));
        let bytes = shared.filter_map(|(_, v)| self.module.types[v.ty].inner.try_size(self.module.to_ctx()));
        bytes.map(u64::from).sum()
    }

    /// Nothing that the entry point uses has another binding than the first `count` of group 0.
    fn nothing_else(&self, count: u32) -> Result<(), Fault> {
        for (variable, global) in self.module.global_variables.iter() {
            let known = global.binding.is_none_or(|place| place.group == 0 && place.binding < count);
            if !known && self.is_used(variable) {
                return Err(self.fault(
                    variable,
                    format!("is bound where nothing is: bindings are 0 to {} of group 0", count.saturating_sub(1)),
                ));
            }
            if global.space == AddressSpace::Immediate {
                return Err(self.fault(variable, "is an immediate: parameters are members of the uniform"));
            }
        }
        Ok(())
    }
}

fn dtype(scalar: naga::Scalar) -> Option<DType> {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Float, 4) => Some(DType::F32),
        (ScalarKind::Float, 2) => Some(DType::F16),
        (ScalarKind::Sint, 4) => Some(DType::I32),
        (ScalarKind::Uint, 4) => Some(DType::U32),
        _ => None,
    }
}
