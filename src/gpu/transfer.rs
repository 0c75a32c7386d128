//! Uploads and copies of any number of bytes to any place.

use crate::error::Result;

use super::context::Gpu;
use super::counters::Made;
use super::pipeline::{Slot, Text};
use super::recorder::Recorder;
use super::render::MOVE_BYTES;

/// Bytes that one launch of `move_bytes` moves: below 65,535 workgroups of 256 bytes, and small bindings.
const PIECE_BYTES: u64 = 8 << 20;
/// Bindings start at multiples of this.
const WINDOW: u64 = 256;

/// A run of bytes within a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    /// The buffer.
    pub(crate) buffer: &'a wgpu::Buffer,
    /// Its first byte.
    pub(crate) offset: u64,
}

impl Gpu {
    /// Records that `data` goes to `target`. `to_end`: nothing but padding follows it there.
    pub(crate) fn upload(&self, target: Span<'_>, data: &[u8], to_end: bool) -> Result<()> {
        self.check()?;
        if data.is_empty() {
            return Ok(());
        }
        if target.offset.is_multiple_of(4) && (to_end || data.len().is_multiple_of(4)) {
            return self.recorder().upload(self, data, target.buffer, target.offset);
        }
        // Neighbours share the first or the last word.
        let between = self.scratch(data.len() as u64)?;
        let mut recorder = self.recorder();
        recorder.upload(self, data, &between, 0)?;
        self.move_bytes(&mut recorder, Span { buffer: &between, offset: 0 }, target, data.len() as u64)
    }

    /// Records a copy of `bytes` bytes; the places may overlap.
    pub(crate) fn copy_bytes(&self, from: Span<'_>, to: Span<'_>, bytes: u64) -> Result<()> {
        self.check()?;
        if bytes == 0 {
            return Ok(());
        }
        if from.buffer != to.buffer {
            return self.copy_distinct(&mut self.recorder(), from, to, bytes);
        }
        let between = self.scratch(bytes)?;
        let mut recorder = self.recorder();
        let middle = Span { buffer: &between, offset: 0 };
        self.copy_distinct(&mut recorder, from, middle, bytes)?;
        self.copy_distinct(&mut recorder, middle, to, bytes)
    }

    fn copy_distinct(&self, recorder: &mut Recorder, from: Span<'_>, to: Span<'_>, bytes: u64) -> Result<()> {
        if (from.offset | to.offset | bytes).is_multiple_of(4) {
            recorder.encoder(self).copy_buffer_to_buffer(from.buffer, from.offset, to.buffer, to.offset, bytes);
            return Ok(());
        }
        self.move_bytes(recorder, from, to, bytes)
    }

    fn move_bytes(&self, recorder: &mut Recorder, from: Span<'_>, to: Span<'_>, bytes: u64) -> Result<()> {
        let slots = [Slot::Read, Slot::Write, Slot::Uniform];
        let pipeline = self.pipeline("move_bytes", Text { wgsl: MOVE_BYTES, foreign: None }, &slots)?;
        for done in (0..bytes).step_by(PIECE_BYTES as usize) {
            let length = PIECE_BYTES.min(bytes - done);
            let (source, skipped) = window(from, done, length);
            let (target, kept) = window(to, done, length);
            let span = self.uniform_buffer("move_bytes", &[skipped, kept, length as u32, 0]);
            self.count(Made::BindGroup);
            let bind_group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("move_bytes"),
                layout: &pipeline.layout,
                entries: &[
                    wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(source) },
                    wgpu::BindGroupEntry { binding: 1, resource: wgpu::BindingResource::Buffer(target) },
                    wgpu::BindGroupEntry { binding: 2, resource: span.as_entire_binding() },
                ],
            });
            let mut pass = recorder.encoder(self).begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline.raw);
            pass.set_bind_group(0, &bind_group, &[]);
            pass.dispatch_workgroups((length / 4 + 2).div_ceil(64) as u32, 1, 1);
        }
        Ok(())
    }

    /// Where bytes lie in between. It is taken before anything is recorded: a copy to a buffer that is none would
    /// spoil all work that is.
    fn scratch(&self, bytes: u64) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let capacity = bytes.next_multiple_of(16).max(16);
        self.alloc_passing(usage, capacity, "scratch", "a copy takes on its way; copy fewer elements at a time")
    }
}

/// The aligned window that holds `length` bytes from byte `done` of `span` on, and where they start in it.
fn window(span: Span<'_>, done: u64, length: u64) -> (wgpu::BufferBinding<'_>, u32) {
    let first = span.offset + done;
    let start = first / WINDOW * WINDOW;
    let end = (first + length).next_multiple_of(16).min(span.buffer.size()); // as long as layouts want it
    let binding = wgpu::BufferBinding { buffer: span.buffer, offset: start, size: wgpu::BufferSize::new(end - start) };
    (binding, (first - start) as u32)
}
