//! Plans of the library, kept for lengths that come again.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustc_hash::FxHashSet;
use rustfft::{Fft, FftNum, FftPlanner};

use crate::fft::pass::Pass;

/// Points that are planned for, in all lengths together: a plan has a root for each, or a few.
const PLANNED: usize = 1 << 22;

/// What lengths were planned for before.
pub(in crate::fft) struct Planners<T: FftNum> {
    real: RealFftPlanner<T>,
    complex: FftPlanner<T>,
    lengths: FxHashSet<usize>,
}

impl<T: FftNum> Planners<T> {
    fn new() -> Mutex<Self> {
        Mutex::new(Self { real: RealFftPlanner::new(), complex: FftPlanner::new(), lengths: FxHashSet::default() })
    }

    /// The planners, without what they know if that has become too much.
    fn with(&mut self, n: usize) -> &mut Self {
        if self.lengths.insert(n) && self.lengths.iter().sum::<usize>() > PLANNED {
            (self.real, self.complex) = (RealFftPlanner::new(), FftPlanner::new());
            self.lengths = std::iter::once(n).collect();
        }
        self
    }
}

/// A type that is transformed in.
pub(in crate::fft) trait Real: FftNum {
    fn planners() -> &'static Mutex<Planners<Self>>;

    fn of(value: f64) -> Self {
        Self::from_f64(value).expect("a float")
    }
}

macro_rules! reals {
    ($($float:ty),*) => {$(
        impl Real for $float {
            fn planners() -> &'static Mutex<Planners<Self>> {
                static PLANNERS: LazyLock<Mutex<Planners<$float>>> = LazyLock::new(Planners::new);
                &PLANNERS
            }
        }
    )*};
}
reals!(f32, f64);

/// How the lines of a pass are transformed.
pub(super) enum Plan<T: FftNum> {
    /// Real points, of which the first half of the results is wanted.
    ToHalf(Arc<dyn RealToComplex<T>>),
    /// Half of the points, the rest of which are conjugates or zeros, to real results.
    FromHalf(Arc<dyn ComplexToReal<T>>),
    Whole(Arc<dyn Fft<T>>),
}

impl<T: Real> Plan<T> {
    pub(super) fn of(pass: &Pass) -> Self {
        let mut planners = T::planners().lock().unwrap_or_else(PoisonError::into_inner);
        let (n, half, flags) = (pass.n, pass.n / 2 + 1, pass.flags);
        let Planners { real, complex, .. } = planners.with(n);
        let alone = pass.whole == n;
        if alone && flags.real && pass.written <= half {
            Self::ToHalf(real.plan_fft_forward(n))
        } else if alone && flags.to_real && !flags.real && pass.read <= half * pass.inner {
            Self::FromHalf(real.plan_fft_inverse(n))
        } else {
            Self::Whole(complex.plan_fft_forward(n))
        }
    }

    /// Results of a line.
    pub(super) fn results(&self, pass: &Pass) -> usize {
        if matches!(self, Self::ToHalf(_)) { pass.n / 2 + 1 } else { pass.n }
    }
}
