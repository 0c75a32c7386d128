//! The way of device bytes to the host.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::Element;
use crate::error::Result;
use crate::status;

use super::context::Gpu;
use super::waiter::Ticket;

/// Bytes of the largest readback buffer.
const PIECE_BYTES: u64 = 256 << 20;
/// Larger buffers are dropped after use.
const POOLED_BYTES: u64 = 1 << 20;
const POOLED_COUNT: usize = 8;

/// Buffers that were read before, for small reads (a loss in every step).
#[derive(Debug, Default)]
pub(super) struct ReadbackPool(Mutex<Vec<wgpu::Buffer>>);

impl ReadbackPool {
    fn take(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
        let bytes = if bytes <= POOLED_BYTES { bytes.next_power_of_two().max(256) } else { bytes };
        let pooled = {
            let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pool.iter().position(|buffer| buffer.size() == bytes).map(|found| pool.remove(found))
        };
        if let Some(buffer) = pooled {
            return Ok(buffer);
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        gpu.alloc_passing(
            usage,
            bytes,
            "readback",
            "a read takes on its way to the host; read fewer elements at a time",
        )
    }

    fn give(&self, buffer: wgpu::Buffer) {
        buffer.unmap();
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.size() > POOLED_BYTES {
            return;
        }
        if pool.len() == POOLED_COUNT {
            pool.remove(0); // the one used longest ago
        }
        pool.push(buffer);
    }
}

/// A part of a read: `bytes` at the start of a buffer, a multiple of 4.
struct Piece {
    buffer: wgpu::Buffer,
    bytes: u64,
    mapped: Ticket,
}

/// A read that the device has been told to do.
pub(crate) struct Read {
    submission: Option<wgpu::SubmissionIndex>,
    pieces: Vec<Piece>,
    /// The status word and the tally.
    status: Piece,
    /// What the tally has to be, if it is kept.
    tallied: Option<u32>,
    skip: usize,
    bytes: usize,
}

impl Read {
    /// What is mapped, in the order in which it is taken.
    fn mapped(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().chain([&self.status])
    }

    fn tickets(&self) -> Vec<Ticket> {
        self.mapped().map(|piece| piece.mapped.clone()).collect()
    }

    fn is_mapped(&self) -> bool {
        self.mapped().all(|piece| piece.mapped.outcome().is_some())
    }
}

impl Gpu {
    /// Has the device copy `bytes` bytes from `offset` on, after all work recorded so far, together with its status.
    pub(crate) fn begin_read(&self, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Read> {
        self.check()?;
        let start = offset & !3;
        let end = (offset + bytes).next_multiple_of(4).min(buffer.size());
        let piece = |bytes: u64| {
            let buffer = self.readbacks.take(self, bytes)?;
            Ok(Piece { buffer, bytes, mapped: Ticket::default() })
        };
        let starts = (start..end).step_by(PIECE_BYTES as usize);
        // before anything is recorded: a copy to a buffer that is none would spoil all work that is
        let pieces = starts.clone().map(|at| piece(PIECE_BYTES.min(end - at))).collect::<Result<Vec<Piece>>>()?;
        let status = piece(8)?;
        let mut recorder = self.recorder();
        let mut copy = |from: &wgpu::Buffer, at: u64, to: &Piece| {
            recorder.encoder(self).copy_buffer_to_buffer(from, at, &to.buffer, 0, to.bytes);
        };
        starts.zip(&pieces).for_each(|(at, piece)| copy(buffer, at, piece));
        copy(&self.status, 0, &status);
        // here, and not once the read has found something: by then other work may have raised it again
        recorder.forget_raised(self);
        let tallied = self.tally.get().map(|_| recorder.tallied);
        let submission = recorder.submit(self);
        drop(recorder);
        let (skip, bytes) = ((offset - start) as usize, bytes as usize);
        let read = Read { submission, pieces, status, tallied, skip, bytes };
        for piece in read.mapped() {
            let mapped = piece.mapped.clone();
            let whole = 0..piece.bytes;
            piece.buffer.map_async(wgpu::MapMode::Read, whole, move |result| mapped.settle(result.is_ok()));
        }
        Ok(read)
    }

    /// Sees to it that a read gets done while nobody waits for it.
    pub(crate) fn watch_read(&self, read: &Read) {
        if let Some(submission) = &read.submission {
            self.waiter.watch(&self.poller, submission.clone(), read.tickets());
        }
    }

    /// Waits for a read that nobody watches on this thread, which saves the way to another one and back.
    pub(crate) fn finish_read_now<T: Element>(self: Arc<Self>, read: Read) -> Result<Vec<T>> {
        self.poller.wait_until(|| read.is_mapped(), read.submission.clone());
        if !read.is_mapped() {
            self.poller.see_settled(&read.tickets());
        }
        pollster::block_on(self.finish_read(read))
    }

    /// Waits for a read, which somebody has to see to, and takes its elements. An index outside its range, wherever it
    /// was met since the last read, is an error here.
    pub(crate) async fn finish_read<T: Element>(self: Arc<Self>, read: Read) -> Result<Vec<T>> {
        let mut result = Vec::with_capacity(read.bytes / T::DTYPE.size_bytes());
        let (mut skip, mut left) = (read.skip, read.bytes);
        for piece in read.pieces {
            let end = (piece.bytes as usize).min(skip + left);
            left -= end - skip;
            self.take_piece(piece, skip..end, &mut result).await?;
            skip = 0;
        }
        let mut words: Vec<u32> = Vec::with_capacity(2);
        self.take_piece(read.status, 0..8, &mut words).await?;
        if read.tallied.is_some_and(|tallied| tallied != words[1]) {
            self.poller.health.lose("the system stopped work on it, perhaps to draw the display; use smaller batches");
        }
        // first: nobody else is told of it, while what was reported is left for the next call
        if words[0] != 0 {
            return Err(status::error(words[0]));
        }
        self.check()?;
        Ok(result)
    }

    async fn take_piece<T: Element>(&self, piece: Piece, bytes: Range<usize>, into: &mut Vec<T>) -> Result<()> {
        let good = piece.mapped.await;
        let view = if good { piece.buffer.get_mapped_range(0..piece.bytes).ok() } else { None };
        let Some(view) = view else {
            // Mapping fails when the device goes away, at times before the driver says that it has.
            self.poller.health.lose("a readback could not be mapped");
            self.check()?;
            unreachable!("a lost device fails every check");
        };
        T::append(into, &view[bytes]);
        drop(view);
        self.readbacks.give(piece.buffer);
        Ok(())
    }
}
