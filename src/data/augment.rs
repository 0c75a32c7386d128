//! Random changes to training pictures.

use super::permutation::hash;

/// What is done to a training picture before it is put in a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Augment {
    /// Nothing.
    #[default]
    None,
    /// Moved by -1, 0 or 1 pixels in each direction; what comes in at the edge is 0.
    Shift,
}

impl Augment {
    /// Changes one picture `[channels, height, width]` in place. `key` fixes the random choice; `scratch` is reused memory.
    pub fn apply(self, pixels: &mut [u8], shape: [usize; 3], key: &[u64], scratch: &mut Vec<u8>) {
        match self {
            Self::None => {}
            Self::Shift => {
                let random = hash(key);
                let (down, right) = ((random % 3) as isize - 1, (random / 3 % 3) as isize - 1);
                shift(pixels, shape, down, right, scratch);
            }
        }
    }
}

fn shift(pixels: &mut [u8], [channels, height, width]: [usize; 3], down: isize, right: isize, scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend_from_slice(pixels);
    let inside =
        |position: usize, by: isize, size: usize| position.checked_add_signed(-by).filter(|&source| source < size);
    for channel in 0..channels {
        for row in 0..height {
            for column in 0..width {
                let source = inside(row, down, height).zip(inside(column, right, width));
                pixels[(channel * height + row) * width + column] =
                    source.map_or(0, |(r, c)| scratch[(channel * height + r) * width + c]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shift_moves_and_fills_with_zero() {
        let mut pixels = vec![1, 2, 3, 4, 5, 6];
        shift(&mut pixels, [1, 2, 3], 1, -1, &mut Vec::new());
        assert_eq!(pixels, [0, 0, 0, 2, 3, 0]);
    }

    #[test]
    fn all_nine_shifts_occur() {
        let mut seen = std::collections::BTreeSet::new();
        for key in 0..200 {
            let mut pixels = vec![0, 0, 0, 0, 1, 0, 0, 0, 0];
            Augment::Shift.apply(&mut pixels, [1, 3, 3], &[key], &mut Vec::new());
            seen.insert(pixels);
        }
        assert_eq!(seen.len(), 9);
    }
}
