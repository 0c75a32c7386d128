//! How a case is measured.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::runtime::Step;
use crate::timing::TimeSource;

use crate::sensors::{Meter, Utilisation};

/// Runs between two waits for the device take this long at least where throughput is asked for: waiting has its own
/// cost.
const CHUNK_S: f64 = 0.01;
const LARGEST_CHUNK: usize = 1000;
/// The first run compiles; the second is warm, unless it took so long that nobody wants another.
const LONG_WARM_UP_S: f64 = 10.0;
/// Warm runs whose kernels are timed, for the median.
const PROFILED: usize = 5;
/// Fewer runs have no 99th percentile.
pub(super) const TAIL_RUNS: usize = 100;
/// A sensor that is slower than a visit is read when a case has run for the first time of these, and again after the
/// second.
const SENSED_S: [f64; 2] = [0.2, 1.0];

/// What a case does.
pub(super) trait Work {
    /// Starts one run; need not wait for its end.
    fn start(&mut self) -> Result<()>;

    /// Waits for the end of all runs.
    fn wait(&mut self) -> Result<()>;

    /// What is replayed, if the device's clock can tell how long its kernels take.
    fn step(&mut self) -> Option<&mut Step> {
        None
    }

    /// Bytes that it holds on the device, as far as that is planned.
    fn memory_bytes(&mut self) -> Option<u64> {
        None
    }
}

/// What tells of a device while it is measured, where something does.
#[derive(Default)]
pub(super) struct Sensors {
    pub(super) meter: Option<Meter>,
    pub(super) utilisation: Option<Utilisation>,
}

/// How long and how often a case is measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Method {
    /// Visits to each case, between which others are measured: what disturbs for a second spoils one of them.
    pub rounds: usize,
    /// Measured runs in all rounds, at least.
    pub least_runs: usize,
    /// Seconds of measured runs in all rounds, at least.
    pub budget_s: f64,
    /// Cases of which one run would take longer are left out, in seconds.
    pub longest_s: f64,
    /// One loop as it comes: no warm-up, nothing is waited for. For comparing with figures taken like that.
    pub as_notebook: bool,
}

impl Method {
    /// Half a second and six runs for each case, in three rounds.
    pub fn thorough() -> Self {
        Self { rounds: 3, least_runs: 6, budget_s: 0.5, longest_s: 20.0, as_notebook: false }
    }

    /// A tenth of a second and five runs for each case, in five rounds, and only short ones.
    pub fn quick() -> Self {
        Self { rounds: 5, least_runs: 5, budget_s: 0.1, longest_s: 1.0, as_notebook: false }
    }

    /// An error if it measures nothing.
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [("rounds", self.rounds), ("least_runs", self.least_runs)] {
            if value == 0 {
                return Err(Error::Config(format!("{name} is 0, but must be at least 1")));
            }
        }
        Ok(())
    }

    /// What it does, in words.
    pub fn describe(&self) -> String {
        if self.as_notebook {
            return "no warm-up, no waiting for the device: what a loop seems to take to a program that does not wait for its \
                    results"
                .into();
        }
        format!(
            "two runs that do not count (the first compiles), then {} runs and {} s at least, in {} rounds with the other cases \
             in between; each run is waited for (short steps that ask for throughput are started together)",
            self.least_runs, self.budget_s, self.rounds
        )
    }
}

/// Differences below this part are none, whatever the spread.
const SAME: f64 = 0.02;

/// What was measured. Times are in seconds, of one run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The first run, with planning and compilation.
    pub first_s: f64,
    /// The median.
    pub median_s: f64,
    /// The first and the third quartile, or the least and the largest median of a round if they are further apart.
    pub range_s: [f64; 2],
    /// The shortest one.
    pub least_s: f64,
    /// Of 100 runs, 95 and 99 took no longer; `None` where there were fewer.
    pub tail_s: Option<[f64; 2]>,
    /// How many were measured.
    pub runs: usize,
    /// Steps in each measured run, whose time is divided by this.
    pub together: usize,
    /// How much longer the last round's runs took than the first's, as part of it: a device that slows down shows here.
    pub drift: f64,
    /// Time in kernels alone, of one run (the median of a few), and how it is known; `None` where the device has no
    /// clock for it.
    pub in_kernels: Option<(f64, TimeSource)>,
    /// How the times of runs are known.
    pub source: TimeSource,
    /// Energy of one run in joules, where the system tells: of the whole device, with what it uses when idle.
    #[serde(default)]
    pub joules: Option<f64>,
    /// The part of the device that was at work, 0 to 1, where the system tells: of a processor the time of all its
    /// threads.
    #[serde(default)]
    pub utilisation: Option<f64>,
    /// What it holds on the device, where that is planned: variables, activations, inputs and outputs.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
}

impl Measured {
    /// How far the range's further end lies from the median, as part of the median.
    pub fn spread(&self) -> f64 {
        let [low, high] = self.range_s;
        (high - self.median_s).max(self.median_s - low) / self.median_s.max(f64::MIN_POSITIVE)
    }

    /// How many times as fast `other` is, at least and at most: by the ranges of both, and no nearer than 2 %.
    pub fn speedup_to(&self, other: &Self) -> [f64; 2] {
        let speedup = self.median_s / other.median_s;
        let least = self.range_s[0] / other.range_s[1];
        let most = self.range_s[1] / other.range_s[0];
        [least.min(speedup / (1.0 + SAME)), most.max(speedup * (1.0 + SAME))]
    }

    /// Whether [`speedup_to`](Self::speedup_to) allows for none; of single runs it does not know.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let [least, most] = self.speedup_to(other);
        least <= 1.0 && most >= 1.0
    }
}

/// A case that is being measured: warm, and visited in rounds.
pub(super) struct Sampler {
    work: Box<dyn Work>,
    first_s: f64,
    /// A warm run, or the first one if that took long.
    one_s: f64,
    together: usize,
    rounds: Vec<Vec<f64>>,
    /// Joules, and the runs they were used in.
    energy: Option<(f64, usize)>,
    /// The part of the device that was at work in each round.
    utilisation: Vec<f64>,
    /// Measured runs in all rounds, at least; 0: as many as the method says.
    least_runs: usize,
}

impl Sampler {
    /// Runs `work` until it is warm; with `throughput`, several steps are started before the device is waited for.
    pub(super) fn new(mut work: Box<dyn Work>, throughput: bool, least_runs: usize) -> Result<Self> {
        let first_s = timed(&mut *work, 1)?;
        let mut one_s = if first_s < LONG_WARM_UP_S { timed(&mut *work, 1)? } else { first_s };
        if throughput && one_s < CHUNK_S {
            // how many are started together depends on it: one disturbed run must not decide
            one_s = one_s.min(timed(&mut *work, 1)?).min(timed(&mut *work, 1)?);
        }
        let together =
            if throughput { ((CHUNK_S / one_s.max(1e-9)).ceil() as usize).clamp(1, LARGEST_CHUNK) } else { 1 };
        Ok(Self {
            work,
            first_s,
            one_s,
            together,
            rounds: Vec::new(),
            energy: None,
            utilisation: Vec::new(),
            least_runs,
        })
    }

    /// One visit, with what `sensors` tell of it.
    pub(super) fn visit(&mut self, method: &Method, sensors: &Sensors) -> Result<()> {
        let least_runs = method.least_runs.max(self.least_runs);
        let (least, budget_s) = (least_runs.div_ceil(method.rounds), method.budget_s / method.rounds as f64);
        if self.one_s < budget_s {
            // what other cases left in the caches is theirs
            timed(&mut *self.work, 1)?;
        }
        // what others show is still of the case before
        let meter = sensors.meter.as_ref().filter(|meter| meter.is_prompt());
        let utilisation = sensors.utilisation.as_ref().filter(|utilisation| utilisation.is_prompt());
        let (before, looked) = (meter.and_then(Meter::read), utilisation.map(Utilisation::look));
        let (mut times, begun) = (Vec::new(), Instant::now());
        while times.len() < least || begun.elapsed().as_secs_f64() < budget_s {
            times.push(timed(&mut *self.work, self.together)? / self.together as f64);
            if begun.elapsed().as_secs_f64() > method.longest_s {
                break;
            }
        }
        if let Some(((meter, before), after)) = meter.zip(before).zip(meter.and_then(Meter::read)) {
            let (joules, runs) = self.energy.get_or_insert((0.0, 0));
            *joules += meter.joules(&before, &after);
            *runs += times.len() * self.together;
        }
        if let Some((utilisation, before)) = utilisation.zip(looked) {
            self.utilisation.extend(utilisation.between(&before, &utilisation.look()));
        }
        self.rounds.push(times);
        Ok(())
    }

    /// Goes on for a second or so, for those of the `sensors` that are slower than a visit.
    pub(super) fn sense(&mut self, sensors: &Sensors) -> Result<()> {
        let meter = sensors.meter.as_ref().filter(|meter| !meter.is_prompt());
        let utilisation = sensors.utilisation.as_ref().filter(|utilisation| !utilisation.is_prompt());
        if meter.is_none() && utilisation.is_none() {
            return Ok(());
        }
        let [settled_s, sensed_s] = SENSED_S;
        self.run_for(settled_s)?;
        let (before, looked) = (meter.and_then(Meter::read), utilisation.map(Utilisation::look));
        let runs = self.run_for(sensed_s)?;
        if let Some(((meter, before), after)) = meter.zip(before).zip(meter.and_then(Meter::read)) {
            self.energy = Some((meter.joules(&before, &after), runs));
        }
        if let Some((utilisation, before)) = utilisation.zip(looked) {
            self.utilisation.extend(utilisation.between(&before, &utilisation.look()));
        }
        Ok(())
    }

    /// As many runs as there are in so many seconds, one at least.
    fn run_for(&mut self, seconds: f64) -> Result<usize> {
        let (begun, mut runs) = (Instant::now(), 0);
        while runs == 0 || begun.elapsed().as_secs_f64() < seconds {
            timed(&mut *self.work, self.together)?;
            runs += self.together;
        }
        Ok(runs)
    }

    /// Whether there is anything to tell.
    pub(super) fn was_visited(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// What all visits told.
    pub(super) fn finish(mut self) -> Result<Measured> {
        let mut measured = Measured::of(self.first_s, &self.rounds, self.together);
        // counters stand still for a millisecond at times: what used nothing was too short to be seen
        measured.joules = self.energy.filter(|(joules, _)| *joules > 0.0).map(|(joules, runs)| joules / runs as f64);
        let rounds = self.utilisation.len();
        measured.utilisation = (rounds > 0).then(|| self.utilisation.iter().sum::<f64>() / rounds as f64);
        measured.memory_bytes = self.work.memory_bytes();
        measured.in_kernels = self.in_kernels(measured.median_s)?;
        Ok(measured)
    }

    /// Seconds in kernels of one warm run, if the device has a clock for them and that is part of the `whole` run:
    /// timing kernels one by one takes time, too.
    fn in_kernels(&mut self, whole: f64) -> Result<Option<(f64, TimeSource)>> {
        let Some(step) = self.work.step() else { return Ok(None) };
        step.profile_kernels(true);
        let mut runs = Vec::new();
        // the first one is not warm: with clocks in between, work is handed over in other pieces
        for number in 0..=PROFILED {
            timed(&mut *self.work, 1)?;
            let kernels = self.work.step().map(|step| step.kernel_times()).unwrap_or_default();
            let Some(source) = kernels.iter().map(|kernel| kernel.source).max() else { return Ok(None) };
            if source == TimeSource::WallClock {
                return Ok(None);
            }
            if number > 0 {
                runs.push((kernels.iter().map(|kernel| kernel.milliseconds * 1e-3).sum::<f64>(), source));
            }
        }
        runs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(runs.get(runs.len() / 2).copied().filter(|(seconds, _)| *seconds <= whole))
    }
}

/// Measures one case alone, all rounds after each other.
pub(super) fn measure(work: Box<dyn Work>, method: &Method, throughput: bool) -> Result<Measured> {
    let mut sampler = Sampler::new(work, throughput, 0)?;
    (0..method.rounds).try_for_each(|_| sampler.visit(method, &Sensors::default()))?;
    sampler.finish()
}

/// What one run takes that nobody waits for, and that nothing was warm for.
pub(super) fn measure_as_notebook(mut work: Box<dyn Work>) -> Result<Measured> {
    let start = Instant::now();
    work.start()?;
    let seconds = start.elapsed().as_secs_f64();
    work.wait()?;
    Ok(Measured::of(seconds, &[vec![seconds]], 1))
}

/// Seconds of `count` runs.
fn timed(work: &mut dyn Work, count: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        work.start()?;
    }
    work.wait()?;
    Ok(start.elapsed().as_secs_f64())
}

impl Measured {
    pub(super) fn of(first_s: f64, rounds: &[Vec<f64>], together: usize) -> Self {
        let median = |times: &[f64]| at(&sorted(times), 0.5);
        let medians: Vec<f64> = rounds.iter().map(|times| median(times)).collect();
        let times = sorted(&rounds.concat());
        let low = medians.iter().copied().fold(at(&times, 0.25), f64::min);
        let high = medians.iter().copied().fold(at(&times, 0.75), f64::max);
        Self {
            first_s,
            median_s: at(&times, 0.5),
            range_s: [low, high],
            least_s: times[0],
            tail_s: (times.len() >= TAIL_RUNS).then(|| [at(&times, 0.95), at(&times, 0.99)]),
            runs: times.len(),
            together,
            drift: medians[medians.len() - 1] / medians[0] - 1.0,
            in_kernels: None,
            source: TimeSource::WallClock,
            joules: None,
            utilisation: None,
            memory_bytes: None,
        }
    }
}

fn sorted(times: &[f64]) -> Vec<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times
}

/// The value below which this part of the sorted times lies, between two of them in proportion (numpy's `linear`).
pub(crate) fn at(times: &[f64], part: f64) -> f64 {
    let place = part * (times.len() - 1) as f64;
    let (low, high) = (times[place.floor() as usize], times[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn figures_are_those_of_the_times() {
        let measured = Measured::of(9.0, &[vec![1.0, 3.0], vec![2.0], vec![4.0, 100.0]], 1);
        assert_eq!((measured.median_s, measured.least_s, measured.runs), (3.0, 1.0, 5));
        assert_eq!(measured.range_s, [2.0, 52.0], "the last round is further off than the quartile, 4");
        assert!((measured.spread() - 49.0 / 3.0).abs() < 1e-12, "the high end is further from 3 than the low one");
        assert_eq!(measured.drift, 52.0 / 2.0 - 1.0);
        assert_eq!(measured.tail_s, None, "5 runs");
        let many: Vec<f64> = (0..=100).map(f64::from).collect();
        let measured = Measured::of(0.0, &[many], 1);
        assert_eq!((measured.range_s, measured.tail_s), ([25.0, 75.0], Some([95.0, 99.0])));
    }

    #[test]
    fn what_is_the_same_is_said_of_the_interval_that_is_shown() {
        let of = |times: [f64; 3]| Measured::of(1.0, &[times.to_vec()], 1);
        let (one, near, far) = (of([0.9, 1.0, 1.1]), of([0.95, 1.04, 1.2]), of([1.4, 1.5, 1.6]));
        assert!(one.is_same_as(&near) && !one.is_same_as(&far) && !far.is_same_as(&one));
        let [least, most] = one.speedup_to(&near);
        assert!(least < 1.0 && most > 1.0, "{least} {most}");
        let exact = |time| of([time; 3]);
        assert!(exact(1.0).is_same_as(&exact(1.015)), "less than 2 %");
        assert!(!exact(1.0).is_same_as(&exact(1.03)));
    }

    /// What sleeps a moment each run. A counter counts: a hundred joules a run of what was before for a while, then
    /// one.
    struct Slow(std::path::PathBuf, Instant, u64);

    impl Work for Slow {
        fn start(&mut self) -> Result<()> {
            std::thread::sleep(std::time::Duration::from_millis(2));
            self.2 += if self.1.elapsed().as_secs_f64() < SENSED_S[0] / 2.0 { 100_000_000 } else { 1_000_000 };
            std::fs::write(&self.0, self.2.to_string()).map_err(|error| Error::io(&self.0, error))
        }

        fn wait(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn slow_sensors_tell_of_the_case_that_runs_and_not_of_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("energy1_input");
        std::fs::write(&file, "0").expect("writable");
        let sensors = Sensors { meter: Some(Meter::Counter(file.clone())), utilisation: None };
        let method = Method { rounds: 1, least_runs: 2, budget_s: 0.0, longest_s: 1.0, as_notebook: false };
        let sampler = || {
            let mut sampler = Sampler::new(Box::new(Slow(file.clone(), Instant::now(), 0)), false, 0)?;
            sampler.visit(&method, &sensors)?;
            Ok::<_, Error>(sampler)
        };
        assert_eq!(sampler().and_then(Sampler::finish).expect("it cannot fail").joules, None, "a visit is too short");
        let mut longer = sampler().expect("it cannot fail");
        longer.sense(&sensors).expect("it cannot fail");
        let joules = longer.finish().expect("it cannot fail").joules;
        assert!(joules.is_some_and(|joules| (joules - 1.0).abs() < 1e-9), "{joules:?}");
    }

    #[test]
    fn runs_are_counted_and_waited_for() {
        type Counts = Arc<Mutex<[usize; 2]>>;
        struct Counting(Counts);
        impl Work for Counting {
            fn start(&mut self) -> Result<()> {
                self.0.lock()[0] += 1;
                Ok(())
            }
            fn wait(&mut self) -> Result<()> {
                self.0.lock()[1] += 1;
                Ok(())
            }
        }
        let counts = Counts::default();
        let counted = || std::mem::take(&mut *counts.lock());
        let work = || Box::new(Counting(Arc::clone(&counts)));
        let method = Method { rounds: 2, least_runs: 4, budget_s: 0.0, longest_s: 1.0, as_notebook: false };
        let measured = measure(work(), &method, false).expect("it cannot fail");
        assert_eq!((counted(), measured.runs, measured.together), ([6, 6], 4, 1));
        let measured = measure(work(), &method, true).expect("it cannot fail");
        assert_eq!((counted(), measured.together), ([4 + 4 * LARGEST_CHUNK, 8], LARGEST_CHUNK));
        measure_as_notebook(work()).expect("it cannot fail");
        assert_eq!(counted(), [1, 1]);
        for nothing in [Method { rounds: 0, ..method }, Method { least_runs: 0, ..method }] {
            assert!(nothing.check().is_err_and(|error| error.to_string().contains("must be at least 1")));
        }
    }
}
