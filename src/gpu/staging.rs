//! The way of host bytes to the device: two rings of mapped buffers.
//!
//! `Queue::write_buffer` makes a buffer for every call. Here a fixed number of them goes round: mapped and filled,
//! copied from by recorded work, mapped again when that work is done. A ring never grows, so memory does not either,
//! and a replay makes no buffers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Gpu;
use super::counters::Made;

/// Both rings: many small chunks for host values, few large ones for data.
#[derive(Debug)]
pub(super) struct Staging {
    small: Ring,
    large: Ring,
}

/// Bytes that lie in a staging buffer, to be copied from there.
#[derive(Debug)]
pub(super) struct Staged {
    /// Where they lie.
    pub(super) buffer: wgpu::Buffer,
    /// From which byte on.
    pub(super) offset: u64,
    /// How many, a multiple of 4; what lies behind the data is zero.
    pub(super) bytes: u64,
    /// How many bytes of the data were taken.
    pub(super) taken: usize,
}

/// Why nothing could be staged.
#[derive(Debug)]
pub(super) enum Full {
    /// All chunks wait for the recorded work to be submitted.
    Unsubmitted,
    /// All chunks are in use; this is the submission that frees one first.
    Until(wgpu::SubmissionIndex),
    /// There is no memory for chunks.
    OutOfMemory,
}

#[derive(Debug)]
struct Ring {
    chunk_bytes: u64,
    count: usize,
    /// Chunks that there are: none before the first use, and fewer when some could not be mapped.
    alive: Arc<AtomicUsize>,
    free: Arc<Mutex<Vec<wgpu::Buffer>>>,
    /// Mapped, and filled up to a byte for the work that is being recorded; the last one is filled next.
    filling: Vec<(wgpu::Buffer, u64)>,
    /// Unmapped, and about to be submitted.
    closed: Vec<wgpu::Buffer>,
    /// The submissions of the chunks that were used last, oldest first.
    submitted: VecDeque<wgpu::SubmissionIndex>,
}

impl Default for Staging {
    fn default() -> Self {
        Self { small: Ring::new(64 << 10, 16), large: Ring::new(8 << 20, 4) }
    }
}

impl Staging {
    /// Puts the start of `data`, or all of it, into a chunk.
    pub(super) fn put(&mut self, gpu: &Gpu, data: &[u8]) -> Result<Staged, Full> {
        let small = data.len() as u64 <= self.small.chunk_bytes / 4;
        let ring = if small { &mut self.small } else { &mut self.large };
        ring.put(gpu, data)
    }

    /// Takes the filled chunks out of the host's hands, before their copies are submitted.
    pub(super) fn close(&mut self) {
        for ring in [&mut self.small, &mut self.large] {
            for (buffer, _) in ring.filling.drain(..) {
                buffer.unmap();
                ring.closed.push(buffer);
            }
        }
    }

    /// Asks for the closed chunks back as soon as `submission`, which copies from them, is done.
    pub(super) fn recall(&mut self, submission: &wgpu::SubmissionIndex) {
        for ring in [&mut self.small, &mut self.large] {
            for buffer in ring.closed.drain(..) {
                let (free, alive, again) = (Arc::clone(&ring.free), Arc::clone(&ring.alive), buffer.clone());
                buffer.map_async(wgpu::MapMode::Write, .., move |mapped| match mapped {
                    Ok(()) => free.lock().unwrap_or_else(PoisonError::into_inner).push(again),
                    // The device is lost, or has no memory to map it to.
                    Err(_) => drop(alive.fetch_sub(1, Ordering::Relaxed)),
                });
                ring.submitted.push_back(submission.clone());
            }
            while ring.submitted.len() > ring.count {
                ring.submitted.pop_front();
            }
        }
    }
}

impl Ring {
    fn new(chunk_bytes: u64, count: usize) -> Self {
        Self {
            chunk_bytes,
            count,
            alive: Arc::default(),
            free: Arc::default(),
            filling: Vec::new(),
            closed: Vec::new(),
            submitted: VecDeque::new(),
        }
    }

    fn put(&mut self, gpu: &Gpu, data: &[u8]) -> Result<Staged, Full> {
        if self.alive.load(Ordering::Relaxed) == 0 && !self.make(gpu) {
            return Err(Full::OutOfMemory);
        }
        let fits = self.filling.last().is_some_and(|&(_, used)| used < self.chunk_bytes);
        if !fits {
            let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(buffer) = free else {
                return Err(match self.submitted.pop_front() {
                    Some(submission) if self.filling.is_empty() => Full::Until(submission),
                    _ => Full::Unsubmitted,
                });
            };
            self.filling.push((buffer, 0));
        }
        let (buffer, used) = self.filling.last_mut().expect("a chunk is being filled");
        let offset = *used;
        let taken = data.len().min((self.chunk_bytes - offset) as usize);
        let bytes = (taken as u64).next_multiple_of(4);
        // Without a view the device is lost, which the next check of its health reports.
        if let Ok(mut view) = buffer.get_mapped_range_mut(offset..offset + bytes) {
            view.slice(..taken).copy_from_slice(&data[..taken]);
            view.slice(taken..).fill(0);
        }
        *used = (offset + bytes).next_multiple_of(16); // mapped ranges start at multiples of 8
        Ok(Staged { buffer: buffer.clone(), offset, bytes, taken })
    }

    /// Makes the chunks, or none.
    fn make(&mut self, gpu: &Gpu) -> bool {
        let scope = gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let chunk = || {
            gpu.count(Made::Buffer);
            gpu.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("staging"),
                size: self.chunk_bytes,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        };
        let chunks: Vec<_> = (0..self.count).map(|_| chunk()).collect();
        let there = pollster::block_on(scope.pop()).is_none();
        if there {
            self.alive.store(self.count, Ordering::Relaxed);
            *self.free.lock().unwrap_or_else(PoisonError::into_inner) = chunks;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn chunks_that_cannot_be_mapped_are_replaced() {
        let Ok(device) = Device::gpu(0) else { return };
        let gpu = device.gpu_backend();
        let mut ring = Ring::new(256, 2);
        let taken = |ring: &mut Ring| ring.put(gpu, &[7; 256]).map(|staged| staged.taken);
        assert!(matches!((taken(&mut ring), taken(&mut ring)), (Ok(256), Ok(256))));
        assert!(matches!(taken(&mut ring), Err(Full::Unsubmitted)));
        // as if none of them had come back
        ring.filling.clear();
        ring.alive.store(0, Ordering::Relaxed);
        assert!(matches!(taken(&mut ring), Ok(256)));
    }
}
