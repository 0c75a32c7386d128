//! Hand-built kernels: their text is valid everywhere, and what it computes is what the interpreter says.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

mod blocks;
mod contract;
mod epilogues;
mod loops;
mod models;
mod routines;
mod runner;
mod subgroups;
mod table;
mod terms;
mod texts;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dtype::{DType, Scalar};
use crate::gpu::render::{Capabilities, Launch, Variant, render, render_as};
use crate::graph::reference::decode;
use crate::plan::interpret::{Rounding, interpret};
use crate::plan::{Body, Buffer, BufferId, Cond, Instr, InstrOp, Ix, Kernel, Place, Plan, Store, Tape, ValueId};
use crate::stage::Stage;

/// Storage buffers beside the status word of an adapter that binds as many as WebGPU promises, which is 8.
const BUFFERS: usize = 7;

/// What two kinds of adapters can do.
fn capabilities(software: bool, f16: bool) -> Capabilities {
    Capabilities {
        max_binding_bytes: 128 << 20,
        max_storage_buffers: BUFFERS as u32,
        max_uniforms: 1 << 14,
        max_workgroup_invocations: 256,
        max_workgroup_bytes: 16 << 10,
        max_groups: 65_535,
        least_threads: 1,
        f16,
        launch_milliseconds: f64::INFINITY,
        busy_groups: if software { 16 } else { 128 },
        software,
        shares_sums: false,
        subgroups: None,
        cooperative: None,
        tuned: None,
    }
}

/// A software adapter whose lanes read together: as many as this machine's adapter has, if their number is fixed.
fn reading_together() -> Capabilities {
    let own = runner::gpu().and_then(|gpu| gpu.subgroups).filter(|[least, most]| least == most);
    Capabilities { subgroups: Some(own.unwrap_or([8, 8])), ..capabilities(true, true) }
}

/// How many lanes read together.
fn software_lanes(caps: &Capabilities) -> usize {
    caps.subgroups.map_or(1, |[least, _]| least)
}

/// A kernel in the making: buffers with contents, and a plan of one kernel.
#[derive(Default)]
struct Case {
    plan: Plan,
    contents: Vec<Vec<u8>>,
    uniforms: Vec<u32>,
    tolerance: f64,
}

impl Case {
    fn new() -> Self {
        Self { tolerance: 1e-5, ..Self::default() }
    }

    /// A buffer of these values.
    fn buffer(&mut self, dtype: DType, values: impl IntoIterator<Item = f64>) -> BufferId {
        let mut bytes = Vec::new();
        let mut elements = 0;
        for value in values {
            bytes.extend_from_slice(&Scalar::new(dtype, value).bits.to_le_bytes()[..dtype.size_bytes()]);
            elements += 1;
        }
        let label = format!("buffer{}", self.contents.len());
        self.plan.buffers.push(Buffer {
            dtype,
            elements,
            place: Place::External(self.contents.len()),
            offset_bytes: 0,
            label,
        });
        self.contents.push(bytes);
        self.contents.len() - 1
    }

    /// A buffer of `elements` different values, exact in every type.
    fn data(&mut self, dtype: DType, elements: usize) -> BufferId {
        let seed = self.contents.len();
        let value = move |i: usize| {
            let bits = (i * 7919 + seed * 104_729 + 12_345).wrapping_mul(2_654_435_761) >> 7;
            match dtype {
                DType::F32 | DType::F16 => (bits % 257) as f64 / 64.0 - 2.0,
                DType::I32 => (bits % 41) as f64 - 20.0,
                DType::U32 | DType::U8 => (bits % 50) as f64,
                DType::Bool => (bits % 3 % 2) as f64,
            }
        };
        self.buffer(dtype, (0..elements).map(value))
    }

    /// Renders the kernel in all ways, checks the text, and runs it where there is an adapter.
    fn check(&mut self, body: Body) {
        for (software, f16) in [(true, true), (false, true), (false, false)] {
            self.check_on(&body, &capabilities(software, f16));
        }
        if matches!(body, Body::Contract(_)) {
            self.check_on(&body, &Capabilities { shares_sums: true, ..capabilities(false, true) });
            self.check_on(&body, &reading_together());
        }
    }

    fn check_on(&mut self, body: &Body, caps: &Capabilities) {
        self.check_as(body, caps, None);
    }

    /// Checks the kernel in this variant, or in that of the rule.
    fn check_as(&mut self, body: &Body, caps: &Capabilities, variant: Option<Variant>) {
        let kernel = self.kernel(body);
        let mut expected = self.values(&self.contents);
        let status = interpret(&self.plan, &kernel, &mut expected, &self.uniforms, Rounding::None);
        for literal in [true, false] {
            self.plan.literal_sizes = literal;
            let launches = render_as(&self.plan, &kernel, caps, variant).expect("it renders");
            launches.iter().for_each(validate);
            let Some(gpu) = runner::gpu() else { continue };
            if caps.f16 && !gpu.f16 || caps.subgroups.is_some_and(|sizes| !gpu.has(sizes)) {
                continue;
            }
            let mut got = self.contents.clone();
            let got_status = gpu.run(&launches, &mut got, &self.uniforms);
            let text = || launches.iter().map(|launch| launch.wgsl.as_str()).collect::<Vec<_>>().join("\n// next\n");
            assert_eq!(got_status, status, "status of\n{}", text());
            for (id, (got, buffer)) in self.values(&got).iter().zip(&self.plan.buffers).enumerate() {
                for (index, (&want, &have)) in expected[id].iter().zip(got).enumerate() {
                    assert!(
                        close(buffer.dtype, want, have, self.tolerance),
                        "buffer {id}[{index}] ({}) is {have} instead of {want}; {caps:?}\n{}",
                        buffer.dtype,
                        text()
                    );
                }
            }
        }
    }

    /// Renders the kernel whole and, as if it were a long one, in several launches: the same bits. Returns how many.
    fn check_cut_by_time(&mut self, body: &Body, caps: &Capabilities) -> usize {
        // 100 ms of arithmetic, of which a launch may take 20
        let kernel = Kernel { flops: 2_000_000_000, ..self.kernel(body) };
        // Tenths: the order in which they are added shows.
        for (bytes, buffer) in self.contents.iter_mut().zip(&self.plan.buffers).filter(|(_, b)| b.dtype == DType::F32) {
            let values = decode(buffer.dtype, bytes).into_iter().map(|value| value as f32 * 0.1);
            *bytes = values.flat_map(f32::to_le_bytes).collect();
        }
        let hurried = Capabilities { launch_milliseconds: 20.0, ..caps.clone() };
        let whole = render(&self.plan, &kernel, caps).expect("it renders");
        let pieces = render(&self.plan, &kernel, &hurried).expect("it renders");
        assert_eq!(whole.len(), 1);
        pieces.iter().for_each(validate);
        if let Some(gpu) = runner::gpu() {
            let results = [&whole, &pieces].map(|launches| {
                let mut contents = self.contents.clone();
                gpu.run(launches, &mut contents, &self.uniforms);
                contents
            });
            assert_ne!(results[0], self.contents, "something is computed");
            assert!(results[0] == results[1], "other bits in {} pieces; {caps:?}", pieces.len());
        }
        pieces.len()
    }

    /// The elements in the buffers' bytes.
    fn values(&self, bytes: &[Vec<u8>]) -> Vec<Vec<f64>> {
        let buffers = bytes.iter().zip(&self.plan.buffers);
        buffers
            .map(|(bytes, buffer)| decode(buffer.dtype, &bytes[..buffer.elements * buffer.dtype.size_bytes()]))
            .collect()
    }

    fn kernel(&self, body: &Body) -> Kernel {
        Kernel {
            label: "test".into(),
            stage: Stage::Forward,
            body: body.clone(),
            nodes: Vec::new(),
            values: Vec::new(),
            modules: Vec::new(),
            reads: body.reads().into_iter().collect(),
            writes: body.writes().into_iter().collect(),
            flops: 0,
            bytes: 0,
        }
    }
}

fn close(dtype: DType, want: f64, have: f64, tolerance: f64) -> bool {
    if want.is_nan() || have.is_nan() {
        return want.is_nan() == have.is_nan();
    }
    let tolerance = match dtype {
        DType::F32 => tolerance,
        DType::F16 => tolerance.max(2e-3),
        _ => 0.0,
    };
    want == have || (want - have).abs() <= tolerance * want.abs().max(1.0)
}

/// Whether a component of a vector in workgroup memory is stored by itself. Compilers may write the whole vector for
/// it, and take back what another invocation has written to the other components. Or one of an invocation's own by a
/// number that varies, which DirectX's older compiler refuses.
fn writes_components(module: &naga::Module, info: &naga::valid::ModuleInfo) -> bool {
    use naga::{AddressSpace, Expression, Handle, Statement, TypeInner};
    fn stores(block: &naga::Block, found: &mut Vec<Handle<Expression>>) {
        for statement in block {
            match statement {
                Statement::Store { pointer, .. } => found.push(*pointer),
                Statement::Block(inner) => stores(inner, found),
                Statement::If { accept, reject, .. } => [accept, reject].iter().for_each(|inner| stores(inner, found)),
                Statement::Loop { body, continuing, .. } => {
                    [body, continuing].iter().for_each(|inner| stores(inner, found));
                }
                Statement::Switch { cases, .. } => cases.iter().for_each(|case| stores(&case.body, found)),
                _ => {}
            }
        }
    }
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle]));
    let entries = module.entry_points.iter().enumerate();
    functions.chain(entries.map(|(n, entry)| (&entry.function, info.get_entry_point(n)))).any(|(function, info)| {
        let mut found = Vec::new();
        stores(&function.body, &mut found);
        found.iter().any(|&pointer| match *info[pointer].ty.inner_with(&module.types) {
            TypeInner::ValuePointer { size: None, space: AddressSpace::WorkGroup, .. } => true,
            TypeInner::ValuePointer { size: None, space: AddressSpace::Function | AddressSpace::Private, .. } => {
                matches!(function.expressions[pointer], Expression::Access { .. })
            }
            _ => false,
        })
    })
}

/// Parses, validates and translates a module to all three of wgpu's languages. `BRASA_DUMP` names a folder that gets
/// what other compilers can be held against: `NUMBER.wgsl` and `NUMBER.hlsl`.
pub(super) fn validate(launch: &Launch) {
    let Launch { label, wgsl: text, .. } = launch;
    let module =
        naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{label}: {}\n{text}", e.emit_to_string(text)));
    let cooperative = text.contains("enable wgpu_cooperative_matrix;");
    let mut capabilities = naga::valid::Capabilities::SHADER_FLOAT16;
    if cooperative {
        capabilities |= naga::valid::Capabilities::COOPERATIVE_MATRIX | naga::valid::Capabilities::SUBGROUP;
    }
    let grouped = text.contains("@builtin(subgroup_invocation_id)");
    if grouped {
        capabilities |= naga::valid::Capabilities::SUBGROUP;
    }
    let mut validator = naga::valid::Validator::new(naga::valid::ValidationFlags::all(), capabilities);
    let info = validator.validate(&module).unwrap_or_else(|e| panic!("{label}: {}\n{text}", e.emit_to_string(text)));
    assert!(!writes_components(&module, &info), "{label}: a component is written alone\n{text}");
    naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None)
        .unwrap_or_else(|e| panic!("{label}: SPIR-V: {e}\n{text}"));
    let options = naga::back::msl::Options { fake_missing_bindings: true, lang_version: (2, 4), ..Default::default() };
    naga::back::msl::write_string(&module, &info, &options, &naga::back::msl::PipelineOptions::default())
        .unwrap_or_else(|e| panic!("{label}: MSL: {e}\n{text}"));
    if cooperative {
        return; // DirectX has no such matrices that wgpu could use
    }
    let hlsl = |shader_model| {
        let options = naga::back::hlsl::Options { fake_missing_bindings: true, shader_model, ..Default::default() };
        let pipeline = naga::back::hlsl::PipelineOptions::default();
        let mut out = String::new();
        naga::back::hlsl::Writer::new(&mut out, &options, &pipeline)
            .write(&module, &info, None)
            .unwrap_or_else(|e| panic!("{label}: HLSL {shader_model:?}: {e}\n{text}"));
        out
    };
    let out = hlsl(naga::back::hlsl::ShaderModel::V6_2);
    if !grouped && !text.contains("enable f16;") {
        hlsl(naga::back::hlsl::ShaderModel::V5_1); // where there is no compiler but Windows' own
    }
    if let Some(folder) = crate::debug::dump_folder() {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        std::fs::create_dir_all(folder).expect("a folder to dump to");
        // what browsers demand and naga does not know
        let enabled = if grouped { format!("enable subgroups;\n{text}") } else { text.clone() };
        for (extension, contents) in [("wgsl", &enabled), ("hlsl", &out)] {
            std::fs::write(folder.join(format!("{number}.{extension}")), contents).expect("writable");
        }
    }
}

/// A tape in the making.
#[derive(Default)]
struct Code(Tape);

impl Code {
    fn push(&mut self, dtype: DType, op: InstrOp) -> ValueId {
        self.0.instrs.push(Instr { op, dtype });
        self.0.instrs.len() - 1
    }

    fn load(&mut self, dtype: DType, buffer: BufferId, index: Ix) -> ValueId {
        self.load_if(dtype, buffer, index, Vec::new())
    }

    fn load_if(&mut self, dtype: DType, buffer: BufferId, index: Ix, valid: Vec<Cond>) -> ValueId {
        self.push(dtype, InstrOp::Load { buffer, index, valid })
    }

    fn constant(&mut self, dtype: DType, value: f64) -> ValueId {
        self.push(dtype, InstrOp::Const(Scalar::new(dtype, value)))
    }
}

fn store(buffer: BufferId, index: Ix, value: ValueId) -> Store {
    Store { buffer, index, value }
}

/// `Σ coefficient · axis + offset`.
fn affine(coefficients: &[i64], offset: i64) -> Ix {
    coefficients.iter().enumerate().fold(Ix::constant(offset), |sum, (axis, &c)| sum.plus(&Ix::axis(axis).times(c)))
}

#[test]
fn too_many_buffers_is_an_error() {
    let mut case = Case::new();
    let mut code = Code::default();
    for _ in 0..=BUFFERS {
        let buffer = case.data(DType::F32, 4);
        code.load(DType::F32, buffer, Ix::axis(0));
    }
    let body = loops::map(&[4], code, vec![store(0, Ix::axis(0), 0)]);
    let kernel = case.kernel(&body);
    let error = render(&case.plan, &kernel, &capabilities(true, true)).expect_err("a buffer too many");
    assert!(error.to_string().contains("8 storage buffers"), "{error}");
}
