//! What a tape's steps take from buffers, indices and streams of random numbers.

use half::f16;
use pulp::Arch;

use super::access::{Access, numbers};
use super::elementwise::CHUNK;
use super::execute::{Env, NOWHERE, Spread, typed};
use super::philox;
use super::program::{Operand, Program};
use super::registers::{Held, Registers};
use super::space::Start;
use super::view::View;
use crate::dtype::DType;

impl Program {
    /// Which of the points `access` reaches: 1 or 0 for each.
    pub(super) fn valid(&self, access: &Access, registers: &mut Registers, points: (&Start, usize), words: &mut [u32]) {
        let Registers { indices, tested, values, .. } = registers;
        self.space.walk(&access.forms, points, values, |row, begin, count| {
            if access.scattered.is_empty() {
                let (low, high) = access.extent(row, count);
                words[begin..begin + count].fill(0);
                words[begin + low..begin + high].fill(1);
                return;
            }
            numbers(access, row, &mut indices[..count], tested);
            for (word, &index) in words[begin..].iter_mut().zip(&indices[..count]) {
                *word = u32::from(index != NOWHERE);
            }
        });
    }

    /// Elements at places that are moved by `stride` times a value.
    pub(super) fn gather(
        &self,
        env: &Env<'_>,
        (access, stride, value): (&Access, i64, &Operand),
        registers: &mut Registers,
        points: (&Start, usize),
        words: &mut [u32],
    ) {
        let Registers { slots, indices, tested, values, .. } = registers;
        let offsets = &slots[value.slot];
        self.space.walk(&access.forms, points, values, |row, begin, count| {
            let indices = &mut indices[..count];
            numbers(access, row, indices, tested);
            for (i, index) in indices.iter_mut().enumerate() {
                let offset = offsets[if value.splat { 0 } else { begin + i }];
                *index = if *index == NOWHERE { NOWHERE } else { *index + stride * i64::from(offset) };
            }
            let view = &env.views[access.buffer];
            typed!(view, access.dtype, read_at(indices, NOWHERE, &mut words[begin..begin + count]));
        });
    }

    /// Random words: for each point the one of its number in the stream of a seed and a position.
    pub(super) fn random(
        &self,
        arch: Arch,
        (access, stream, [seed, position]): (&Access, u32, [&Operand; 2]),
        registers: &mut Registers,
        points: (&Start, usize),
        words: &mut [u32],
    ) {
        let Registers { slots, indices, values, .. } = registers;
        let word = |operand: &Operand, i: usize| slots[operand.slot][if operand.splat { 0 } else { i }];
        let one_key = seed.splat && position.splat;
        self.space.walk(&access.forms, points, values, |row, begin, count| {
            let words = &mut words[begin..begin + count];
            if one_key && access.position.straight && access.position.stride == 1 {
                let start = access.position.start(row);
                philox::fill_run(arch, start, stream, word(position, 0), word(seed, 0), words);
                return;
            }
            let indices = &mut indices[..count];
            access.position.fill(row, indices);
            if one_key {
                philox::fill_at(indices, stream, word(position, 0), word(seed, 0), words);
            } else {
                for i in 0..count {
                    let (position, seed) = (word(position, begin + i), word(seed, begin + i));
                    philox::fill_at(&indices[i..=i], stream, position, seed, &mut words[i..=i]);
                }
            }
        });
    }

    /// Copies elements into `words`; if they may `stay` where they are, and lie there next to each other, says where
    /// instead. Of none at all, that a chunk of zeros stands for them.
    pub(super) fn load(
        &self,
        access: &Access,
        env: &Env<'_>,
        registers: &mut Registers,
        points: (&Start, usize),
        (words, stay): (&mut [u32], bool),
    ) -> Option<Held> {
        let mut direct = None;
        let view = &env.views[access.buffer];
        let Registers { indices, tested, values, recipes, .. } = registers;
        let position = &access.position;
        self.space.walk(&access.forms, points, values, |row, begin, count| {
            let words = &mut words[begin..begin + count];
            if !position.straight || !access.scattered.is_empty() {
                if let Some(line) = access.line {
                    position.for_each_line(row, (count, line), |begin, start, count| {
                        let words = &mut words[begin..begin + count];
                        match line.stride {
                            0 => read_same(view, access.dtype, start, words),
                            _ => typed!(view, access.dtype, read_run(start, words)),
                        }
                    });
                } else if let Some((base, offsets)) = recipes.of(access, row, count, (indices, tested)) {
                    offsets.read(env.arch, view, access.dtype, base, words);
                } else {
                    numbers(access, row, &mut indices[..count], tested);
                    typed!(view, access.dtype, read_at(&indices[..count], NOWHERE, words));
                }
                return;
            }
            let (low, high) = access.extent(row, count);
            if stay && high - low == points.1 && position.stride == 1 && access.dtype.size_bytes() == size_of::<u32>() {
                direct = Some(Held::Buffer(view.run(position.start(row), count)));
                return;
            }
            if stay && low == high && count == points.1 {
                words[..CHUNK].fill(0);
                direct = Some(Held::Splat);
                return;
            }
            words[..low].fill(0);
            words[high..].fill(0);
            let words = &mut words[low..high];
            if words.is_empty() {
                return;
            }
            let start = position.start(row) + position.stride * low as i64;
            match position.stride {
                1 => typed!(view, access.dtype, read_run(start, words)),
                0 => read_same(view, access.dtype, start, words),
                stride => typed!(view, access.dtype, read_strided(start, stride, words)),
            }
        });
        direct
    }
}

/// Reads one element for all `words`, of which there is at least one.
#[inline(always)]
fn read_same(view: &View, dtype: DType, start: i64, words: &mut [u32]) {
    typed!(view, dtype, read_run(start, &mut words[..1]));
    let bits = words[0];
    words.fill(bits);
}

/// Fills a register with one result for each row; of a single row, a chunk of it if one may stand for all.
pub(super) fn spread(results: &[u32], spread: Spread, one_may_do: bool, mut rest: &mut [u32]) -> Held {
    match spread {
        Spread::Rows { first, row, skip } if one_may_do && skip + rest.len() <= row => {
            let len = rest.len().min(CHUNK);
            rest[..len].fill(results[first]);
            return Held::Splat;
        }
        Spread::Rows { first, row, mut skip } => {
            for &bits in &results[first..] {
                let (now, later) = rest.split_at_mut((row - skip).min(rest.len()));
                now.fill(bits);
                if later.is_empty() {
                    break;
                }
                rest = later;
                skip = 0;
            }
        }
        Spread::Columns { first, width } => {
            for words in rest.chunks_mut(width) {
                words.copy_from_slice(&results[first..first + words.len()]);
            }
        }
    }
    Held::Slot
}

/// Indices as they are used, none of them `bound` or more; true if one was, or was negative.
pub(super) fn clamp_indices(indices: &[u32], signed: bool, bound: u32, words: &mut [u32]) -> bool {
    let mut outside = false;
    for (word, &bits) in words.iter_mut().zip(indices) {
        let below = signed && bits.cast_signed() < 0;
        outside |= below || bits >= bound;
        *word = if below { 0 } else { bits.min(bound.saturating_sub(1)) };
    }
    outside
}
