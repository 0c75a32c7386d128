//! How the learning rate changes over a run.

/// Factor of the learning rate by step.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Always 1.
    #[default]
    Constant,
    /// Rises linearly to 1 over `warmup` steps, then falls along half a cosine to 0 at the end of the run (Loshchilov and
    /// Hutter, arXiv 1608.03983, without restarts).
    Cosine {
        /// Steps of the rise.
        warmup: u64,
    },
    /// 1, and a tenth of it from each of two points of the run on, as He et al. trained ResNets for CIFAR.
    Steps {
        /// First drop, as a part of the run.
        first: f64,
        /// Second drop, as a part of the run.
        second: f64,
    },
    /// Rises linearly to 1 over `rise` of the run, then falls linearly to 0 at its end (a triangle, as in Smith's "1cycle").
    Triangle {
        /// Part of the run that rises.
        rise: f64,
    },
}

impl Schedule {
    /// The factor for step `step` (from 0) of a run of `steps` steps. Past the end it stays at the end's value.
    pub fn factor(self, step: u64, steps: u64) -> f32 {
        let progress = if steps == 0 { 1.0 } else { (step as f64 / steps as f64).min(1.0) };
        let factor = match self {
            Self::Constant => 1.0,
            Self::Cosine { warmup } if step < warmup => (step + 1) as f64 / (warmup + 1) as f64,
            Self::Cosine { warmup } => {
                let falling = steps.saturating_sub(warmup).max(1) as f64;
                let progress = ((step - warmup) as f64 / falling).min(1.0);
                0.5 + 0.5 * (std::f64::consts::PI * progress).cos()
            }
            Self::Steps { first, second } => 0.1_f64.powi(i32::from(progress >= first) + i32::from(progress >= second)),
            // The middle of the step, so that neither the first nor the last one is without effect.
            Self::Triangle { rise } => {
                let middle = ((step as f64 + 0.5) / steps.max(1) as f64).min(1.0);
                if middle < rise { middle / rise } else { (1.0 - middle) / (1.0 - rise).max(f64::MIN_POSITIVE) }
            }
        };
        factor as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(schedule: Schedule, step: u64, expected: f32) {
        let factor = schedule.factor(step, 100);
        assert!((factor - expected).abs() < 1e-6, "{schedule:?} at {step}: {factor} instead of {expected}");
    }

    #[test]
    fn schedules_pass_through_their_corners() {
        close(Schedule::Constant, 99, 1.0);
        let cosine = Schedule::Cosine { warmup: 9 };
        close(cosine, 0, 0.1);
        close(cosine, 9, 1.0);
        close(cosine, 100, 0.0);
        close(cosine, 1_000, 0.0);
        let steps = Schedule::Steps { first: 0.5, second: 0.75 };
        close(steps, 49, 1.0);
        close(steps, 50, 0.1);
        close(steps, 75, 0.01);
        let triangle = Schedule::Triangle { rise: 0.25 };
        close(triangle, 0, 0.02);
        close(triangle, 24, 0.98);
        close(triangle, 99, 0.005 / 0.75);
    }

    #[test]
    fn a_run_without_steps_has_a_factor() {
        for schedule in [Schedule::Constant, Schedule::Cosine { warmup: 0 }, Schedule::Triangle { rise: 0.0 }] {
            assert!(schedule.factor(0, 0).is_finite(), "{schedule:?}");
        }
    }
}
