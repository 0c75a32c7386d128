//! Measuring the variants of a plan's contractions, in memory whose contents nobody needs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use half::f16;
use rayon::prelude::*;

use crate::device::{TuneOptions, TuneProgress, TuneReport, TunedKernel};
use crate::dtype::DType;
use crate::error::Result;
use crate::plan::{Body, BufferId, Plan};
use crate::pool;
use crate::timing::TimeSource;

use super::bound::Bound;
use super::context::Gpu;
use super::dispatch::{Dispatch, Memory, bind};
use super::features::{Feature, VARIABLE, without};
use super::program::Program;
use super::render::{Capabilities, Launch, Tuned, Variant, identity, render_as, tuned, variants};
use super::stopwatch::Stopwatch;

/// Another variant has to take less than this part of the time, or chance may have chosen it.
const FASTER: f64 = 0.97;
/// A variant that takes this many times as long at first is not looked at again.
const HOPELESS: f64 = 1.5;
/// Of a kernel that takes more milliseconds, which has work for the whole device, no variant is tried that reads more
/// than this many times as much for each product: it cannot win, and might take so long that the system resets the
/// device.
const LONG_MILLISECONDS: f64 = 20.0;
const MORE_READS: f64 = 2.0;
/// Bytes of a result that are compared at most.
const COMPARED_BYTES: u64 = 256 << 20;
/// Elements of the noise that operands are filled with.
const NOISE: usize = 1 << 16;
/// Samples of the whole step, and runs in each; of one that takes longer, few of one run.
const SAMPLES: usize = 9;
const RUNS: usize = 3;
const FEW_SAMPLES: usize = 3;
/// How much longer a whole step has to take for what was found to be dropped.
const SLOWER: f64 = 1.02;
const LONG_STEP_MILLISECONDS: f64 = 500.0;

/// One contraction of the plan, and all that are equal to it.
struct Contraction {
    /// Its number in the plan.
    kernel: usize,
    key: u64,
    count: usize,
    /// What runs until now; `None` for the rule's.
    current: Option<Variant>,
    /// All variants, the rule's first.
    variants: Vec<Variant>,
}

/// Something to measure: compiled, and bound to memory.
struct Candidate {
    /// `None` for the rule's.
    variant: Option<Variant>,
    dispatches: Vec<Dispatch>,
}

/// Tries the variants of the contractions of `plan`; `buffers` has memory that each of its buffers lies in, which is
/// overwritten.
pub(crate) fn tune(
    gpu: &Arc<Gpu>,
    plan: &Arc<Plan>,
    buffers: &[&wgpu::Buffer],
    options: &TuneOptions,
    tell: &mut dyn FnMut(TuneProgress),
) -> Result<TuneReport> {
    // of noise, indices may be out of range: nobody is to hear of that, but of what was raised before
    let raised = gpu.buffer("status", 16, wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST);
    gpu.recorder().encoder(gpu).copy_buffer_to_buffer(&gpu.status, 0, &raised, 0, 16);
    let may_raise = gpu.recorder().may_raise;
    let report = tuned_by(gpu, plan, buffers, options, tell);
    let mut recorder = gpu.recorder();
    recorder.encoder(gpu).copy_buffer_to_buffer(&raised, 0, &gpu.status, 0, 16);
    recorder.may_raise = may_raise;
    drop(recorder);
    report
}

fn tuned_by(
    gpu: &Arc<Gpu>,
    plan: &Arc<Plan>,
    buffers: &[&wgpu::Buffer],
    options: &TuneOptions,
    tell: &mut dyn FnMut(TuneProgress),
) -> Result<TuneReport> {
    let deadline = Instant::now() + options.budget;
    let uniforms = (plan.uniforms > 0).then(|| gpu.uniform_buffer("host values", &vec![0; plan.uniforms]));
    let memory = Memory { buffers: buffers.iter().map(|&buffer| buffer.clone()).collect(), uniforms };
    // what plans before this one were tuned to is where this one starts
    let remembered = gpu.tuned_place.as_ref().filter(|_| !without(Feature::Tuned)).map(|place| Arc::new(place.load()));
    let caps = Capabilities { tuned: remembered.or_else(|| gpu.caps.tuned.clone()), ..gpu.caps.clone() };
    let mut tuner = Tuner { gpu, caps, plan, memory, watch: Stopwatch::new(gpu), deadline };
    let contractions = contractions(&tuner.caps, plan);
    let current = |contraction: &Contraction| tuner.candidate(contraction, contraction.current);
    let current = pool::run(|| contractions.par_iter().map(current).collect::<Result<Vec<_>>>())?;
    let mut begun = Vec::new();
    for (contraction, current) in contractions.into_iter().zip(current) {
        tuner.fill(contraction.kernel)?;
        let once = tuner.watch.once(&current.dispatches)?;
        begun.push((contraction, current, once));
    }
    begun.sort_by(|(a, _, (first, _)), (b, _, (second, _))| {
        (second * b.count as f64).total_cmp(&(first * a.count as f64))
    });
    let mut report = TuneReport { complete: true, kept: true, ..TuneReport::default() };
    let mut chosen = tuner.caps.tuned.as_deref().cloned().unwrap_or_default();
    let mut before = Vec::new();
    let of = begun.len();
    for (done, (contraction, current, once)) in begun.into_iter().enumerate() {
        tell(TuneProgress { kernel: plan.kernels[contraction.kernel].label.clone(), done, of });
        let (kernel, variant, complete) = tuner.choose(&contraction, current, once)?;
        // at once, so that what was found is not lost if this ends early
        if kernel.tried > 1 {
            report.saved = gpu.remember(&[(contraction.key, variant)]);
        }
        report.kernels.push(kernel);
        report.complete &= complete;
        before.push((contraction.key, contraction.current));
        match variant {
            Some(variant) => chosen.insert(contraction.key, variant),
            None => chosen.remove(&contraction.key),
        };
    }
    if !report.kernels.is_empty() {
        let [first, now] = tuner.steps(buffers, chosen)?;
        report.step_milliseconds = Some([first, now]);
        // kernels that are faster by themselves, but not one after the other; less than that is noise
        report.kept = now <= SLOWER * first;
        if !report.kept {
            gpu.remember(&before);
            report.saved = None;
        }
    }
    Ok(report)
}

/// The different contractions of a plan that have more than one variant.
fn contractions(caps: &Capabilities, plan: &Plan) -> Vec<Contraction> {
    let mut all: Vec<Contraction> = Vec::new();
    let mut known: HashMap<u64, usize> = HashMap::new();
    for (number, kernel) in plan.kernels.iter().enumerate() {
        let Body::Contract(contraction) = &kernel.body else { continue };
        let variants = variants(caps, contraction);
        if variants.len() < 2 || !plan.literal_sizes {
            continue;
        }
        let key = identity(contraction);
        if let Some(&same) = known.get(&key) {
            all[same].count += 1;
            continue;
        }
        known.insert(key, all.len());
        let current = tuned(plan, kernel, caps);
        all.push(Contraction { kernel: number, key, count: 1, current, variants });
    }
    all
}

struct Tuner<'a> {
    gpu: &'a Arc<Gpu>,
    /// With what is remembered by now.
    caps: Capabilities,
    plan: &'a Arc<Plan>,
    memory: Memory,
    watch: Stopwatch<'a>,
    deadline: Instant,
}

impl Tuner<'_> {
    /// The fastest variant of a contraction of which `current` runs until now and took so many milliseconds `once`, and
    /// whether all were tried.
    fn choose(
        &mut self,
        contraction: &Contraction,
        current: Candidate,
        once: (f64, TimeSource),
    ) -> Result<(TunedKernel, Option<Variant>, bool)> {
        let is_late = |tuner: &Self| Instant::now() >= tuner.deadline;
        self.fill(contraction.kernel)?;
        let (before, source) = if is_late(self) { once } else { self.watch.median(&current.dispatches, once.0)? };
        // what a single run takes beside the kernel's own work: a fence is waited for
        let aside = (once.0 - before).max(0.0);
        let mut best = (before, current.variant);
        let mut tried = vec![(before, current)];
        let first = self.first(contraction);
        let by_name = contraction.variants.iter().copied().map(Some).filter(|&variant| variant != first);
        let others = std::iter::once(None).chain(by_name).filter(|&variant| variant != contraction.current);
        let rule = contraction.variants.first().copied();
        let reads = |variant: Option<Variant>| variant.or(rule).map_or(0.0, Variant::reads_per_product);
        let hopeful = |&variant: &Option<Variant>| {
            before < LONG_MILLISECONDS || reads(variant) <= MORE_READS * reads(contraction.current)
        };
        let others: Vec<Option<Variant>> = others.filter(hopeful).collect();
        let mut complete = true;
        for chunk in others.chunks(rayon::current_num_threads().max(1)) {
            if is_late(self) {
                complete = false;
                break;
            }
            for candidate in self.candidates(contraction, chunk) {
                if is_late(self) {
                    complete = false;
                    break;
                }
                let (once, _) = self.watch.once(&candidate.dispatches)?;
                if once > aside + HOPELESS * best.0 {
                    tried.push((f64::INFINITY, candidate));
                    continue;
                }
                let (milliseconds, _) = self.watch.median(&candidate.dispatches, once)?;
                if milliseconds < best.0 {
                    best = (milliseconds, candidate.variant);
                }
                tried.push((milliseconds, candidate));
            }
            self.gpu.check()?;
        }
        let (after, [before, now]) = self.winner(contraction, before, &mut tried)?;
        let kernel = &self.plan.kernels[contraction.kernel];
        let name = |variant: Option<Variant>| match variant.or(first) {
            Some(variant) => variant.to_string(),
            None => "as the rule has it".into(),
        };
        let report = TunedKernel {
            label: kernel.label.clone(),
            stage: kernel.stage,
            count: contraction.count,
            before: name(contraction.current),
            after: name(after),
            milliseconds: [before, now],
            tried: tried.len(),
            source,
        };
        Ok((report, after, complete))
    }

    /// Of all that were tried the one that stays faster than the first one when both take turns, and gives its bits;
    /// and the milliseconds of the first one and of that.
    fn winner(
        &mut self,
        contraction: &Contraction,
        before: f64,
        tried: &mut [(f64, Candidate)],
    ) -> Result<(Option<Variant>, [f64; 2])> {
        let [(_, current), others @ ..] = tried else { unreachable!("the one that runs until now was tried") };
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut expected = None;
        for (milliseconds, candidate) in others {
            if *milliseconds >= FASTER * before {
                break;
            }
            let (medians, least) = self.watch.duel([&current.dispatches, &candidate.dispatches], before)?;
            // what disturbs a run makes it longer
            if [medians, least].iter().any(|[first, second]| *second >= FASTER * first) {
                continue;
            }
            // drivers may take liberties in one variant that they do not take in another
            let wanted = match expected.take() {
                Some(wanted) => wanted,
                None => self.results(contraction.kernel, current)?,
            };
            if self.results(contraction.kernel, candidate)? == wanted {
                return Ok((candidate.variant, medians));
            }
            let label = &self.plan.kernels[contraction.kernel].label;
            tracing::debug!("{label}: {:?} gives other bits here and is not used", candidate.variant);
            expected = Some(wanted);
        }
        Ok((current.variant, [before, before]))
    }

    /// The variant that the rule takes, unless the kernel runs in pieces that may take different ones.
    fn first(&self, contraction: &Contraction) -> Option<Variant> {
        let kernel = &self.plan.kernels[contraction.kernel];
        let whole = render_as(self.plan, kernel, &self.caps, None).is_ok_and(|launches| launches.len() == 1);
        contraction.variants.first().copied().filter(|_| whole)
    }

    /// Those that can be compiled.
    fn candidates(&self, contraction: &Contraction, variants: &[Option<Variant>]) -> Vec<Candidate> {
        let compile = |&variant: &Option<Variant>| {
            let candidate = self.candidate(contraction, variant);
            candidate.inspect_err(|error| tracing::debug!("{variant:?} is left out: {error}")).ok()
        };
        pool::run(|| variants.par_iter().filter_map(compile).collect())
    }

    fn candidate(&self, contraction: &Contraction, variant: Option<Variant>) -> Result<Candidate> {
        let kernel = &self.plan.kernels[contraction.kernel];
        let launches = render_as(self.plan, kernel, &self.caps, variant)?;
        let mut rendered: Vec<Vec<Launch>> = vec![Vec::new(); self.plan.kernels.len()];
        rendered[contraction.kernel] = launches;
        let program = Program::from_launches(self.gpu, Arc::clone(self.plan), rendered)?;
        let dispatches = bind(&program, &self.memory);
        Ok(Candidate { variant, dispatches })
    }

    /// What the kernel writes when all it reads is noise.
    fn results(&self, kernel: usize, candidate: &Candidate) -> Result<Vec<Vec<u8>>> {
        self.fill(kernel)?;
        self.watch.run(&candidate.dispatches, 1)?;
        let read = |&buffer: &BufferId| {
            let (start, bytes) = self.part(buffer);
            let read = self.gpu.begin_read(&self.memory.buffers[buffer], start, bytes.min(COMPARED_BYTES))?;
            Arc::clone(self.gpu).finish_read_now::<u8>(read)
        };
        self.plan.kernels[kernel].writes.iter().map(read).collect()
    }

    /// Fills what a kernel touches: floats with noise between -1 and 1, flags with both values, and numbers, which may
    /// be indices, with zeros.
    fn fill(&self, kernel: usize) -> Result<()> {
        let kernel = &self.plan.kernels[kernel];
        for &buffer in kernel.reads.iter().chain(&kernel.writes) {
            let noise = noise(self.plan.buffers[buffer].dtype, buffer as u64);
            let ((first, bytes), target) = (self.part(buffer), &self.memory.buffers[buffer]);
            for start in (0..bytes).step_by(noise.len()) {
                let part = &noise[..noise.len().min((bytes - start) as usize)];
                self.gpu.recorder().upload(self.gpu, part, target, first + start)?;
            }
        }
        Ok(())
    }

    /// Where a buffer starts in its memory, and how many bytes it has.
    fn part(&self, buffer: BufferId) -> (u64, u64) {
        let buffer = &self.plan.buffers[buffer];
        (buffer.offset_bytes, buffer.bytes())
    }

    /// Milliseconds of the whole plan, as it runs until now and with the variants `chosen`, in turns: once for both if
    /// no kernel changes.
    fn steps(&self, buffers: &[&wgpu::Buffer], chosen: Tuned) -> Result<[f64; 2]> {
        let changes = self.caps.tuned.as_deref().map_or(!chosen.is_empty(), |tuned| *tuned != chosen);
        let caps = Capabilities { tuned: Some(Arc::new(chosen)), ..self.caps.clone() };
        let uniforms = vec![0; self.plan.uniforms];
        let mut bound = Vec::new();
        for caps in [&self.caps, &caps].into_iter().take(1 + usize::from(changes)) {
            let program = Program::with_capabilities(self.gpu, Arc::clone(self.plan), caps)?;
            bound.push(Bound::new(Arc::new(program), buffers)?);
        }
        let sample = |bound: &mut Bound, runs: usize| -> Result<f64> {
            self.gpu.sync()?;
            let start = Instant::now();
            (0..runs).try_for_each(|_| bound.run(&uniforms))?;
            self.gpu.sync()?;
            Ok(start.elapsed().as_secs_f64() * 1e3 / runs as f64)
        };
        // the first runs are slower
        let once = bound.iter_mut().map(|bound| sample(bound, 1)).collect::<Result<Vec<_>>>()?;
        let is_long = once.iter().any(|&milliseconds| milliseconds > LONG_STEP_MILLISECONDS);
        let (samples, runs) = if is_long { (FEW_SAMPLES, 1) } else { (SAMPLES, RUNS) };
        let mut least = [f64::INFINITY; 2];
        for _ in 0..samples {
            for (bound, least) in bound.iter_mut().zip(&mut least) {
                *least = sample(bound, runs)?.min(*least);
            }
        }
        Ok(if changes { least } else { [least[0]; 2] })
    }
}

/// Bytes of elements that are repeated over a buffer; another `seed` gives others.
fn noise(dtype: DType, seed: u64) -> Vec<u8> {
    let bits = |number: usize| {
        let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) ^ seed;
        mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40
    };
    let float = |number| (bits(number) as f32 / 8_388_608.0) - 1.0;
    match dtype {
        DType::F32 => (0..NOISE).flat_map(|number| float(number).to_le_bytes()).collect(),
        DType::F16 => (0..NOISE).flat_map(|number| f16::from_f32(float(number)).to_le_bytes()).collect(),
        DType::Bool => (0..NOISE).map(|number| (bits(number) % 2) as u8).collect(),
        DType::I32 | DType::U32 | DType::U8 => vec![0; NOISE],
    }
}

/// Remembers for each contraction of `plan` the last of its variants, and tells how many there are: as if tuning had
/// found them to be the fastest.
#[cfg(test)]
pub(crate) fn remember_last_variants(gpu: &Gpu, plan: &Plan) -> usize {
    let contractions = contractions(&gpu.caps, plan);
    let found: Vec<_> = contractions.iter().map(|one| (one.key, one.variants.last().copied())).collect();
    gpu.remember(&found).expect("writable");
    found.len()
}

impl Gpu {
    /// Keeps what was found, where there is a place for it.
    fn remember(&self, found: &[(u64, Option<Variant>)]) -> Option<PathBuf> {
        if without(Feature::Tuned) {
            tracing::warn!("{VARIABLE} says -tuned: what is found is remembered, but not used while it says so");
        }
        let saved = self.tuned_place.as_ref()?.save(found);
        saved.inspect_err(|error| tracing::warn!("what tuning found cannot be kept: {error}")).ok()
    }
}
