//! Reads a folder on from where it was left.

use std::path::Path;

use crate::train::Start;
use crate::train::record::{CONFUSION, METRICS, PLAN, PREDICTIONS, RESIDUALS, RUN, RunRecord, RunState, STATUS};

use super::events::{Another, EventFiles};
use super::json::{self, Watched};
use super::lines::{Lines, Reached};
use super::news::News;
use super::problems::Problems;
use super::state;

/// The settings of a run.
const CONFIG: &str = "config.toml";

/// How far a folder was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    config: Watched,
    run: Watched,
    status: Watched,
    plan: Watched,
    predictions: Watched,
    confusion: Watched,
    residuals: Watched,
    lines: Lines,
    /// Why the lines cannot be read.
    lines_problem: Option<String>,
    events: EventFiles,
    /// What the run said it was doing, and when.
    said: Option<(RunState, u64)>,
    /// As the run says.
    passes: Option<Passes>,
    /// Whether numbers were read, whose epochs are those of `passes`.
    begun: bool,
    /// Problems that were told.
    told: Vec<String>,
}

/// Which pass over the data a step is in.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Passes {
    /// Steps in a pass.
    steps: usize,
    /// A step and the passes behind it, before which steps had another size; (0, 0) if none had.
    changed: (u64, f64),
}

impl Passes {
    fn of(start: &Start) -> Option<Self> {
        let Start { epochs, steps_per_epoch, steps, steps_done, .. } = *start;
        if steps_per_epoch == 0 {
            return None;
        }
        let of_one_size = steps == 0 || Some(steps) == epochs.checked_mul(steps_per_epoch);
        let left = steps.saturating_sub(steps_done) as f64 / steps_per_epoch as f64;
        let changed = if of_one_size { (0, 0.0) } else { (steps_done as u64, (epochs as f64 - left).max(0.0)) };
        Some(Self { steps: steps_per_epoch, changed })
    }

    fn at(self, step: u64) -> f32 {
        let (changed, passes) = self.changed;
        let epoch = match step.checked_sub(changed) {
            Some(since) => passes + since as f64 / self.steps as f64,
            None => passes * step as f64 / changed as f64,
        };
        epoch as f32
    }
}

impl Reader {
    /// Reads what is new, about `most` bytes of numbers.
    pub(super) fn read(&mut self, folder: &Path, most: u64) -> News {
        let mut news = News::default();
        if let Err(error) = std::fs::read_dir(folder) {
            // what was read stays
            self.tell(vec![format!("the folder: {error}")], &mut news);
            return news;
        }
        if self.pass(folder, most, &mut news).is_err() {
            // read anew, all of it, before what was known is dropped
            *self = Self { told: std::mem::take(&mut self.told), ..Self::default() };
            news = News { restart: true, ..News::default() };
            while self.pass(folder, most, &mut news).is_ok() && news.more {}
        }
        let mut problems = Problems::default();
        for (name, watched) in [
            (CONFIG, &self.config),
            (RUN, &self.run),
            (STATUS, &self.status),
            (PLAN, &self.plan),
            (PREDICTIONS, &self.predictions),
            (CONFUSION, &self.confusion),
            (RESIDUALS, &self.residuals),
        ] {
            watched.problem().into_iter().for_each(|reason| problems.add(format!("{name}: {reason}")));
        }
        self.lines_problem.iter().for_each(|reason| problems.add(format!("{METRICS}: {reason}")));
        problems.extend(&self.lines.problems);
        self.events.problems(&mut problems);
        self.tell(problems.into_list(), &mut news);
        let is_silent = self.said.is_some_and(|(state, at)| state::silence(state, at).is_some());
        news.held = is_silent.then(|| state::is_held(folder)).flatten();
        news
    }

    /// One look at everything.
    fn pass(&mut self, folder: &Path, most: u64, news: &mut News) -> Result<(), Another> {
        let Self { config, run, status, plan, predictions, confusion, residuals, .. } = self;
        read(&mut news.config, config, folder, CONFIG, json::settings);
        read(&mut news.run, run, folder, RUN, json::json::<RunRecord>);
        read(&mut news.status, status, folder, STATUS, json::status);
        read(&mut news.plan, plan, folder, PLAN, json::plan);
        read(&mut news.predictions, predictions, folder, PREDICTIONS, json::predictions);
        read(&mut news.confusion, confusion, folder, CONFUSION, json::confusion);
        read(&mut news.residuals, residuals, folder, RESIDUALS, json::json);
        if let Some(status) = &news.status {
            self.said = Some((status.state, status.written_unix_ms));
        }
        if let Some(run) = &news.run {
            let passes = Passes::of(&run.start);
            if self.begun && passes != self.passes {
                return Err(Another);
            }
            self.passes = passes;
        }
        let passes = self.passes;
        let epoch = |step: u64| passes.map(|passes| passes.at(step));
        let reached = self.lines.read(&folder.join(METRICS), most, |line| news.line(&line, epoch(line.step)));
        self.begun = true;
        (news.more, self.lines_problem) = match reached {
            Reached::End => (false, None),
            Reached::More => (true, None),
            Reached::Another => return Err(Another),
            Reached::Failed(reason) => (false, Some(reason)),
        };
        // what lines tell of is not taken from events, so they come first
        if !news.more {
            news.more = self.events.read(folder, most, |step| epoch(step).unwrap_or(f32::NAN), news)?;
        }
        Ok(())
    }

    fn tell(&mut self, problems: Vec<String>, news: &mut News) {
        if self.told != problems {
            self.told.clone_from(&problems);
            news.problems = Some(problems);
        }
    }
}

/// Reads a file that is written anew as a whole, if it changed.
fn read<T>(
    news: &mut Option<T>,
    watched: &mut Watched,
    folder: &Path,
    name: &str,
    parse: fn(&[u8]) -> Result<T, String>,
) {
    if let Some(value) = watched.read(&folder.join(name), parse) {
        *news = Some(value);
    }
}
