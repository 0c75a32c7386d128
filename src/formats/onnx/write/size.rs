//! Sizes of axes that may depend on that of the batch.

/// `fixed + per_batch · batch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) fixed: i64,
    pub(super) per_batch: i64,
}

impl Size {
    pub(super) const ONE: Self = Self::of(1);

    /// The same for every batch.
    pub(super) const fn of(size: usize) -> Self {
        Self { fixed: size.cast_signed() as i64, per_batch: 0 }
    }

    /// The straight line through the sizes that an axis has for two sizes of the batch.
    pub(super) fn between(batches: [usize; 2], sizes: [usize; 2]) -> Self {
        let [x, y] = batches.map(|size| size as i64);
        let [a, b] = sizes.map(|size| size as i64);
        let per_batch = (b - a) / (y - x);
        Self { fixed: a - per_batch * x, per_batch }
    }

    pub(super) const fn is_fixed(self) -> bool {
        self.per_batch == 0
    }

    /// The size, if it is the same for every batch.
    pub(super) fn known(self) -> Option<usize> {
        if self.is_fixed() { usize::try_from(self.fixed).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_two_sizes() {
        assert_eq!(Size::between([2, 3], [7, 7]), Size::of(7));
        assert_eq!(Size::between([2, 3], [16, 24]), Size { fixed: 0, per_batch: 8 });
        assert_eq!(Size::between([2, 3], [3, 4]), Size { fixed: 1, per_batch: 1 });
    }
}
