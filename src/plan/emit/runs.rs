//! Iteration spaces of row kernels.

use crate::plan::index::Ix;
use crate::shape::Shape;

/// The iteration space of a row kernel: runs of merged axes, each reduced or not, in the order of memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::plan) struct Runs(pub Vec<(usize, bool)>);

impl Runs {
    /// The space of a reduction of `shape` over `axes`.
    pub(in crate::plan) fn new(shape: &Shape, axes: &[usize]) -> Self {
        let mut runs: Vec<(usize, bool)> = Vec::new();
        for (axis, &size) in shape.iter().enumerate() {
            if size == 1 {
                continue;
            }
            let inner = axes.contains(&axis);
            match runs.last_mut() {
                Some(run) if run.1 == inner => run.0 = run.0.saturating_mul(size),
                _ => runs.push((size, inner)),
            }
        }
        Self(runs)
    }

    /// Elements outside and inside of the reduction.
    pub(in crate::plan) fn sizes(&self) -> (usize, usize) {
        let product = |inner| self.0.iter().filter(|run| run.1 == inner).map(|run| run.0).product();
        (product(false), product(true))
    }

    /// Kernel axes (outer ones first), and the coordinates of the runs in memory order.
    pub(super) fn axes(&self) -> (Vec<usize>, usize, Vec<Ix>, Vec<usize>) {
        let outer = self.0.iter().filter(|run| !run.1).count();
        let (mut next_outer, mut next_inner) = (0, outer);
        let mut axes = vec![0; self.0.len()];
        let mut coords = Vec::new();
        for &(size, inner) in &self.0 {
            let next = if inner { &mut next_inner } else { &mut next_outer };
            axes[*next] = size;
            coords.push(Ix::axis(*next));
            *next += 1;
        }
        (axes, outer, coords, self.0.iter().map(|run| run.0).collect())
    }
}
