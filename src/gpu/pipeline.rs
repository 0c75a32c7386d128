//! Compiled kernels, kept by their text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::debug;
use crate::error::{Error, Result};
use crate::pool;

use super::ahead::New;
use super::context::Gpu;
use super::counters::Made;
use super::pipeline_cache::PipelineCache;
use super::render::{Launch, Uniforms};

/// Above this many, those that nothing uses are dropped.
const MAX_KEPT: usize = 4096;

/// What one binding of a kernel is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Slot {
    /// Memory that is only read.
    Read,
    /// Memory that is written.
    Write,
    /// Values that are the same for all invocations.
    Uniform,
    /// The same two for a module that is not ours, whose elements may be of any length.
    ForeignRead,
    ForeignWrite,
}

/// A kernel's module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Text<'a> {
    pub(super) wgsl: &'a str,
    /// The entry point if it is not ours.
    pub(super) foreign: Option<&'a str>,
}

impl<'a> Text<'a> {
    fn of(launch: &'a Launch) -> Self {
        Self { wgsl: &launch.wgsl, foreign: launch.foreign.as_deref() }
    }
}

/// A compiled kernel.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) raw: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
}

/// A kernel that was asked for.
struct Compiled {
    pipeline: Arc<Pipeline>,
    /// Nobody had asked for it.
    is_new: bool,
}

/// Text, foreign entry point, bindings.
type Key = (Arc<str>, Option<Arc<str>>, Vec<Slot>);

/// All compiled kernels of a device.
#[derive(Debug, Default)]
pub(super) struct Pipelines {
    kept: Mutex<HashMap<Key, Arc<Pipeline>>>,
    layouts: Mutex<HashMap<Vec<Slot>, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>>,
}

/// What a launch binds, in the order of binding numbers.
pub(super) fn slots(launch: &Launch) -> Vec<Slot> {
    let windows = launch.bindings.iter().map(|binding| match (binding.writable, launch.foreign.is_some()) {
        (false, false) => Slot::Read,
        (true, false) => Slot::Write,
        (false, true) => Slot::ForeignRead,
        (true, true) => Slot::ForeignWrite,
    });
    let sizes = (!launch.sizes.is_empty()).then_some(Slot::Uniform);
    let uniforms = launch.uniforms.map(|kind| match kind {
        Uniforms::Uniform => Slot::Uniform,
        Uniforms::Storage => Slot::Read,
    });
    let status = launch.uses_status.then_some(Slot::Write);
    windows.chain(sizes).chain(uniforms).chain(status).collect()
}

impl Gpu {
    /// The compiled kernels of all launches, in their order; new ones are compiled in parallel.
    pub(super) fn pipelines(&self, launches: &[&Launch]) -> Result<Vec<Arc<Pipeline>>> {
        let mut unique: HashMap<(Text<'_>, Vec<Slot>), &Launch> = HashMap::new();
        for launch in launches {
            unique.entry((Text::of(launch), slots(launch))).or_insert(launch);
        }
        let compiled: HashMap<(Text<'_>, Vec<Slot>), Compiled> = pool::run(|| {
            let compile = |((text, slots), launch): ((_, Vec<Slot>), &Launch)| {
                let compiled = self.compiled(&launch.label, text, &slots)?;
                Ok(((text, slots), compiled))
            };
            unique.into_par_iter().map(compile).collect::<Result<_>>()
        })?;
        let new = compiled.iter().filter(|(_, compiled)| compiled.is_new);
        self.make_ahead(
            new.map(|((text, slots), Compiled { pipeline, .. })| New { text: *text, slots, pipeline }).collect(),
        );
        let pipeline = |launch| Arc::clone(&compiled[&(Text::of(launch), slots(launch))].pipeline);
        Ok(launches.iter().map(|launch| pipeline(launch)).collect())
    }

    /// The compiled kernel with this text.
    pub(super) fn pipeline(&self, label: &str, text: Text<'_>, slots: &[Slot]) -> Result<Arc<Pipeline>> {
        self.compiled(label, text, slots).map(|compiled| compiled.pipeline)
    }

    fn compiled(&self, label: &str, text: Text<'_>, slots: &[Slot]) -> Result<Compiled> {
        let key: Key = (text.wgsl.into(), text.foreign.map(Into::into), slots.to_vec());
        if let Some(found) = self.pipelines.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Compiled { pipeline: Arc::clone(found), is_new: false });
        }
        dump(label, text.wgsl);
        let pipeline = Arc::new(self.compile(label, text, slots)?);
        let mut kept = self.pipelines.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, pipeline| Arc::strong_count(pipeline) > 1);
        }
        Ok(Compiled { pipeline: Arc::clone(kept.entry(key).or_insert(pipeline)), is_new: true })
    }

    /// Compiles a kernel, whether it is kept or not.
    pub(super) fn compile(&self, label: &str, text: Text<'_>, slots: &[Slot]) -> Result<Pipeline> {
        let failed = |error: wgpu::Error| {
            let (kernel, message) = (label.into(), error.to_string());
            match text.foreign {
                Some(_) => Error::CustomKernel { kernel, line: None, message },
                None => Error::Kernel { kernel, message },
            }
        };
        let (bind_group_layout, pipeline_layout) = self.layout(slots);
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let module = self.module(label, text);
        if let Some(error) = pollster::block_on(scope.pop()) {
            return Err(failed(error));
        }
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let raw = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(label),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some(text.foreign.unwrap_or("main")),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &[],
                // ours write before they read
                zero_initialize_workgroup_memory: text.foreign.is_some(),
            },
            cache: self.pipeline_cache.as_ref().map(PipelineCache::raw),
        });
        self.count(Made::Pipeline);
        let errors = [pollster::block_on(internal.pop()), pollster::block_on(validation.pop())];
        match errors.into_iter().flatten().next() {
            Some(error) => Err(failed(error)),
            None => {
                if let Some(cache) = &self.pipeline_cache {
                    cache.note_made();
                }
                Ok(Pipeline { raw, layout: bind_group_layout })
            }
        }
    }

    fn module(&self, label: &str, text: Text<'_>) -> wgpu::ShaderModule {
        let checks = match self.checked {
            true => wgpu::ShaderRuntimeChecks::checked(),
            false => wgpu::ShaderRuntimeChecks::unchecked(),
        };
        let source = wgpu::ShaderSource::Wgsl(text.wgsl.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(label), source };
        if text.foreign.is_some() {
            return self.device.create_shader_module(descriptor);
        }
        #[expect(unsafe_code, reason = "bounds checks cost a third of a matrix product's speed")]
        // SAFETY: every index in a kernel is in bounds by construction, or clamped where it depends on what memory
        // holds, and every loop ends whatever it reads; the tests run the same kernels checked.
        unsafe {
            self.device.create_shader_module_trusted(descriptor, checks)
        }
    }

    fn layout(&self, slots: &[Slot]) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
        let mut layouts = self.pipelines.layouts.lock().unwrap_or_else(PoisonError::into_inner);
        layouts.entry(slots.to_vec()).or_insert_with(|| self.make_layout(slots)).clone()
    }

    fn make_layout(&self, slots: &[Slot]) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
        let entries: Vec<_> = (0..).zip(slots).map(|(binding, slot)| layout_entry(binding, *slot)).collect();
        let group =
            self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            ..Default::default()
        });
        (group, layout)
    }
}

fn layout_entry(binding: u32, slot: Slot) -> wgpu::BindGroupLayoutEntry {
    // No element of ours is longer than a vec4, so wgpu need not compare sizes in each launch. How long uniforms are
    // depends on the kernel.
    let min_binding_size = if matches!(slot, Slot::Read | Slot::Write) { wgpu::BufferSize::new(16) } else { None };
    let ty = match slot {
        Slot::Read | Slot::ForeignRead => wgpu::BufferBindingType::Storage { read_only: true },
        Slot::Write | Slot::ForeignWrite => wgpu::BufferBindingType::Storage { read_only: false },
        Slot::Uniform => wgpu::BufferBindingType::Uniform,
    };
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size },
        count: None,
    }
}

/// Writes the kernel's text to the folder that `BRASA_DUMP` names, as a debugging aid whose failure is not an error.
fn dump(label: &str, wgsl: &str) {
    let Some(folder) = debug::dump_folder() else { return };
    let name: String = label.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let mut hash = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(wgsl, &mut hash);
    let path = folder.join(format!("{name}-{:016x}.wgsl", std::hash::Hasher::finish(&hash)));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, wgsl));
    if let Err(error) = written {
        tracing::warn!("BRASA_DUMP: {}: {error}", path.display());
    }
}
