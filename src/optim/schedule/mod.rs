//! How the learning rate changes over a run: PyTorch's `torch.optim.lr_scheduler`, under its names and with its values.

mod scheduler;
mod text;

pub use scheduler::Scheduler;

use std::f64::consts::PI;

use crate::error::{Error, Result};

/// The learning rate as a function of the step.
///
/// Steps count from 0. Learning rates in the fields (`min`, `max`) are absolute, as in PyTorch; factors multiply the
/// optimizer's own learning rate, the *base*. A length left open (`None`) is that of the run: see
/// [`Schedule::for_run`].
///
/// It is written as text in configuration files and flags (`FromStr`, `Display`, and as a string in serde):
/// `cosine`, `cosine:warmup=5`, `multistep:at=30/60,gamma=0.1`, `linear:steps=5 then@5 exponential:gamma=0.9`,
/// `step:size=30 * linear:steps=10` (a product).
///
/// ```
/// use brasa::optim::Schedule;
///
/// # fn main() -> brasa::Result<()> {
/// let schedule = "cosine:warmup=4".parse::<Schedule>()?.for_run(100);
/// assert!((schedule.lr(0.1, 0) - 0.02).abs() < 1e-15);
/// assert_eq!(schedule.lr(0.1, 4), 0.1);
/// assert!(schedule.lr(0.1, 52) < 0.051);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Schedule {
    /// `factor` for `steps` steps, then 1: `ConstantLR`, but 1 throughout by default.
    Constant {
        /// Multiplies the base.
        factor: f64,
        /// For this many steps.
        steps: u64,
    },
    /// A factor from `start` to `end` in equal steps: `LinearLR`.
    Linear {
        /// At step 0.
        start: f64,
        /// From step `steps` on.
        end: f64,
        /// Length of the change.
        steps: Option<u64>,
    },
    /// Times `gamma` every `size` steps: `StepLR`.
    Step {
        /// Steps between two changes.
        size: u64,
        /// The factor of a change.
        gamma: f64,
    },
    /// Times `gamma` at each of the steps `at`: `MultiStepLR`.
    MultiStep {
        /// Steps of the changes.
        at: Vec<u64>,
        /// The factor of a change.
        gamma: f64,
    },
    /// Times `gamma` every step: `ExponentialLR`.
    Exponential {
        /// The factor of a step.
        gamma: f64,
    },
    /// `(1 − t/steps)^power`, then 0: `PolynomialLR`.
    Polynomial {
        /// Length of the fall.
        steps: Option<u64>,
        /// Its shape; 1 is a line.
        power: f64,
    },
    /// Along half a cosine from the base to `min`, and back if it goes on: `CosineAnnealingLR` (Loshchilov and Hutter,
    /// arXiv 1608.03983, without restarts).
    Cosine {
        /// Length of the fall.
        steps: Option<u64>,
        /// The learning rate at its end.
        min: f64,
    },
    /// Falls of this kind one after the other, each from the base: `CosineAnnealingWarmRestarts`.
    CosineRestarts {
        /// Length of the first fall.
        first: u64,
        /// How many times as long each is as the one before.
        longer: u64,
        /// The learning rate at the end of each.
        min: f64,
    },
    /// One rise to the base and a fall far below where it began: `OneCycleLR` (Smith and Topin, arXiv 1708.07120),
    /// whose `max_lr` is the base here. Momentum is left alone.
    OneCycle {
        /// Length of the run; the learning rate of its last step stays.
        steps: Option<u64>,
        /// Part of the run that rises.
        rise: f64,
        /// The base over the first learning rate.
        div: f64,
        /// The first learning rate over the last one.
        final_div: f64,
        /// The form of rises and falls.
        anneal: Anneal,
        /// Falls as long as it rose, then from the first learning rate to the last one.
        three_phase: bool,
    },
    /// Between the base and `max`, again and again: `CyclicLR` (Smith, arXiv 1506.01186). Momentum is left alone.
    Cyclic {
        /// The learning rate at the top.
        max: f64,
        /// Steps of a rise.
        up: u64,
        /// Steps of a fall; as those of a rise if `None`.
        down: Option<u64>,
        /// What becomes of the height.
        mode: Cycle,
    },
    /// Times `factor` when a metric has not improved for a while: `ReduceLROnPlateau`. It depends on what is
    /// measured, and needs a [`Scheduler`].
    Plateau(Plateau),
    /// The product of the factors of all: `ChainedScheduler` over schedules that are factors.
    Chained(Vec<Schedule>),
    /// One after the other, each counting its steps from 0: `SequentialLR`.
    Sequential {
        /// The parts.
        parts: Vec<Schedule>,
        /// The steps at which the second part and those after it begin.
        starts: Vec<u64>,
    },
}

/// The form of a rise or fall.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Anneal {
    /// Half a cosine.
    #[default]
    Cos,
    /// A line.
    Linear,
}

/// What becomes of a cycle's height.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Cycle {
    /// It stays.
    #[default]
    Triangular,
    /// It halves from cycle to cycle.
    Triangular2,
    /// It is multiplied by this in each step.
    ExpRange(f64),
}

/// When and how far [`Schedule::Plateau`] goes down; defaults are PyTorch's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plateau {
    /// Larger metrics are better.
    pub maximize: bool,
    /// The factor of a change.
    pub factor: f64,
    /// So many metrics in a row may be no better.
    pub patience: u64,
    /// By how much a metric must be better than the best one.
    pub threshold: f64,
    /// The threshold is absolute and not a part of the best metric.
    pub absolute: bool,
    /// How many metrics after a change do not count.
    pub cooldown: u64,
    /// The learning rate stays at least this.
    pub min: f64,
    /// A smaller change is not made.
    pub epsilon: f64,
}

impl Default for Plateau {
    fn default() -> Self {
        Self {
            maximize: false,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            absolute: false,
            cooldown: 0,
            min: 0.0,
            epsilon: 1e-8,
        }
    }
}

impl Default for Schedule {
    /// The base throughout.
    fn default() -> Self {
        Self::Constant { factor: 1.0, steps: 0 }
    }
}

impl Schedule {
    /// This schedule after a linear rise over `steps` steps, the first of which has `1 / (steps + 1)` of the base.
    #[must_use]
    pub fn with_warmup(self, steps: u64) -> Self {
        if steps == 0 {
            return self;
        }
        let rise = Self::Linear { start: 1.0 / (steps as f64 + 1.0), end: 1.0, steps: Some(steps) };
        Self::Sequential { parts: vec![rise, self], starts: vec![steps] }
    }

    /// With the lengths that were left open: that of a run of `steps` steps, or of the part of it that is left.
    #[must_use]
    pub fn for_run(mut self, run: u64) -> Self {
        match &mut self {
            Self::Linear { steps, .. }
            | Self::Polynomial { steps, .. }
            | Self::Cosine { steps, .. }
            | Self::OneCycle { steps, .. } => {
                steps.get_or_insert(run.max(1));
            }
            Self::Chained(parts) => parts.iter_mut().for_each(|part| *part = std::mem::take(part).for_run(run)),
            Self::Sequential { parts, starts } => {
                let begins = std::iter::once(0).chain(starts.iter().copied());
                let ends = starts.iter().copied().chain([run]);
                for (part, (begin, end)) in parts.iter_mut().zip(begins.zip(ends)) {
                    *part = std::mem::take(part).for_run(end.saturating_sub(begin));
                }
            }
            _ => {}
        }
        self
    }

    /// The learning rate of step `step`, if the optimizer's own is `base`; of a plateau, the base.
    ///
    /// # Panics
    /// If a length is left open.
    pub fn lr(&self, base: f64, step: u64) -> f64 {
        let t = step as f64;
        let length = |steps: &Option<u64>| {
            steps.unwrap_or_else(|| panic!("schedule `{self}` has no length: give it steps, or use for_run"))
        };
        match self {
            Self::Constant { factor, steps } => base * if step < *steps { *factor } else { 1.0 },
            Self::Linear { start, end, steps } => {
                let steps = length(steps) as f64;
                base * (start + (end - start) * (t.min(steps) / steps))
            }
            Self::Step { size, gamma } => times(base, power(*gamma, step / size)),
            Self::MultiStep { at, gamma } => {
                times(base, power(*gamma, at.iter().filter(|&&change| change <= step).count() as u64))
            }
            Self::Exponential { gamma } => times(base, power(*gamma, step)),
            Self::Polynomial { steps, power } => {
                let steps = length(steps) as f64;
                base * (1.0 - t.min(steps) / steps).powf(*power)
            }
            Self::Cosine { steps, min } => cosine(base, *min, t / length(steps) as f64),
            Self::CosineRestarts { first, longer, min } => {
                let (mut since, mut period) = (step, *first);
                while since >= period {
                    since -= period;
                    period = period.saturating_mul(*longer);
                }
                cosine(base, *min, since as f64 / period as f64)
            }
            Self::OneCycle { steps, .. } => self.one_cycle(base, t, length(steps) as f64),
            Self::Cyclic { max, up, down, mode } => {
                let (up, total) = (*up as f64, up.saturating_add(down.unwrap_or(*up)) as f64);
                let cycle = (1.0 + t / total).floor();
                let (x, ratio) = (1.0 + t / total - cycle, up / total);
                let height = if x <= ratio { x / ratio } else { (x - 1.0) / (ratio - 1.0) };
                let scale = match mode {
                    Cycle::Triangular => 1.0,
                    Cycle::Triangular2 => 0.5_f64.powf(cycle - 1.0),
                    Cycle::ExpRange(gamma) => power(*gamma, step),
                };
                base + times((max - base) * height, scale)
            }
            Self::Plateau(_) => base,
            Self::Chained(parts) => times(base, parts.iter().map(|part| part.lr(1.0, step)).fold(1.0, times)),
            Self::Sequential { parts, starts } => {
                let number = starts.iter().filter(|&&start| start <= step).count();
                let start = if number == 0 { 0 } else { starts[number - 1] };
                parts[number].lr(base, step - start)
            }
        }
    }

    fn one_cycle(&self, max: f64, t: f64, total: f64) -> f64 {
        let Self::OneCycle { rise, div, final_div, anneal, three_phase, .. } = self else {
            unreachable!("called for a cycle")
        };
        let (first, last) = (max / div, max / div / final_div);
        let top = rise * total - 1.0;
        let (ends, rates) = if *three_phase {
            (vec![top, 2.0 * rise * total - 2.0, total - 1.0], vec![first, max, first, last])
        } else {
            (vec![top, total - 1.0], vec![first, max, last])
        };
        let phase = ends.iter().position(|&end| t <= end).unwrap_or(ends.len() - 1);
        let begin = if phase == 0 { 0.0 } else { ends[phase - 1] };
        let length = ends[phase] - begin;
        let progress = if length > 0.0 { ((t - begin) / length).min(1.0) } else { 1.0 };
        let (from, to) = (rates[phase], rates[phase + 1]);
        match anneal {
            Anneal::Cos => cosine(from, to, progress),
            Anneal::Linear => (to - from) * progress + from,
        }
    }

    /// Whether the values make sense.
    ///
    /// # Errors
    /// If not: which one, and what it must be.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::Config(format!("schedule `{self}`: {what}")));
        if let Some(number) = self.numbers().into_iter().find(|number| !(number.is_finite() && *number >= 0.0)) {
            return wrong(&format!("{number} is not a value for a setting"));
        }
        match self {
            Self::Linear { steps: Some(0), .. }
            | Self::Polynomial { steps: Some(0), .. }
            | Self::Cosine { steps: Some(0), .. }
            | Self::OneCycle { steps: Some(0), .. } => wrong("steps must be at least 1"),
            Self::Step { size: 0, .. } => wrong("size must be at least 1"),
            Self::CosineRestarts { first, longer, .. } if *first == 0 || *longer == 0 => {
                wrong("first and longer must be at least 1")
            }
            Self::OneCycle { rise, div, final_div, three_phase, .. } => match () {
                () if !(0.0..=1.0).contains(rise) => wrong("rise must be from 0 to 1"),
                () if *three_phase && *rise > 0.5 => wrong("rise must be at most 0.5 with three phases"),
                () if !(*div > 0.0 && *final_div > 0.0) => wrong("div and final must be greater than 0"),
                () => Ok(()),
            },
            Self::Cyclic { up, down, .. } if *up == 0 || *down == Some(0) => wrong("up and down must be at least 1"),
            Self::Plateau(plateau) if !(0.0..1.0).contains(&plateau.factor) => {
                wrong("factor must be from 0 to below 1")
            }
            Self::Chained(parts) => match parts.iter().find(|part| !part.is_factor()) {
                Some(part) => wrong(&format!("`{part}` is not a factor and cannot be chained")),
                None => parts.iter().try_for_each(Self::check),
            },
            Self::Sequential { parts, starts } => {
                let nested = |part: &Self| matches!(part, Self::Sequential { .. } | Self::Plateau(_));
                match () {
                    () if parts.len() != starts.len() + 1 => wrong("each part but the first needs a start"),
                    () if !starts.is_sorted() => wrong("the starts must rise"),
                    () if parts.iter().any(nested) => {
                        wrong("a part is a sequence or a plateau, which must stand alone")
                    }
                    () => parts.iter().try_for_each(Self::check),
                }
            }
            _ => Ok(()),
        }
    }

    /// Its own settings that are not whole numbers.
    fn numbers(&self) -> Vec<f64> {
        match *self {
            Self::Constant { factor, .. } => vec![factor],
            Self::Linear { start, end, .. } => vec![start, end],
            Self::Step { gamma, .. } | Self::MultiStep { gamma, .. } | Self::Exponential { gamma } => vec![gamma],
            Self::Polynomial { power, .. } => vec![power],
            Self::Cosine { min, .. } | Self::CosineRestarts { min, .. } => vec![min],
            Self::OneCycle { rise, div, final_div, .. } => vec![rise, div, final_div],
            Self::Cyclic { max, mode: Cycle::ExpRange(gamma), .. } => vec![max, gamma],
            Self::Cyclic { max, .. } => vec![max],
            Self::Plateau(Plateau { factor, threshold, min, epsilon, .. }) => vec![factor, threshold, min, epsilon],
            Self::Chained(_) | Self::Sequential { .. } => Vec::new(),
        }
    }

    /// Whether it multiplies the base by a factor that does not depend on it.
    fn is_factor(&self) -> bool {
        match self {
            Self::Constant { .. }
            | Self::Linear { .. }
            | Self::Step { .. }
            | Self::MultiStep { .. }
            | Self::Exponential { .. }
            | Self::Polynomial { .. } => true,
            Self::Cosine { min, .. } => *min == 0.0,
            _ => false,
        }
    }
}

/// From `from` to `to` along half a cosine, as `progress` goes from 0 to 1.
fn cosine(from: f64, to: f64, progress: f64) -> f64 {
    to + (from - to) / 2.0 * (1.0 + (PI * progress).cos())
}

/// A product in which 0 wins over infinity: a rate that has come to nothing stays so.
fn times(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

fn power(factor: f64, count: u64) -> f64 {
    factor.powf(count as f64)
}
