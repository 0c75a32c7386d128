//! A run, from its settings to its summary.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::data::{
    self, Augment, Cache, Dataset, DatasetName, Description, Goal, Last, On, OpenOptions, Pipeline, Sample, Split,
};
use crate::device::Device;
use crate::error::{Error, Result, StateMismatch};
use crate::formats::tensorboard::Setting;
use crate::tensor::Tensor;

use super::auto::{AUTO, Volume, choose};
use super::callback::Callback;
use super::checkpoint::{self, Progress};
use super::devices::{self, OpenDevices};
use super::early_stopping::EarlyStopping;
use super::folder::RunFolder;
use super::learner::Learner;
use super::length::Length;
use super::rates::Rates;
use super::record::RunRecord;
use super::run::{BEST, Run, WEIGHTS};
use super::{ClassWeights, Config, Control, Environment, Event, HeldOut, MemoryNeed, Summary, TensorBoard, targets};

/// A run that is ready to start: settings checked, data and device open, model made, folder there.
///
/// ```
/// use brasa::train::{Config, Control, Event, Trainer};
///
/// let out = std::env::temp_dir().join("brasa-example-runs");
/// let config = Config { epochs: 1, device: Some("cpu".into()), out: out.clone(), ..Config::default() };
/// let mut accuracy = 0.0;
/// let summary = Trainer::new(config)?.run(&Control::default(), &mut |event| {
///     if let Event::Evaluated { test, .. } = event {
///         accuracy = test.score();
///     }
/// })?;
/// assert!(accuracy > 0.5 && summary.folder.join("model.safetensors").exists());
/// # std::fs::remove_dir_all(out).unwrap();
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Trainer {
    pub(super) config: Config,
    /// The first one evaluates.
    pub(super) devices: Vec<Device>,
    pub(super) folder: RunFolder,
    pub(super) data: Split<Pipeline>,
    pub(super) learner: Learner,
    pub(super) memory: MemoryNeed,
    pub(super) rates: Rates,
    pub(super) length: Length,
    pub(super) callbacks: Vec<Box<dyn Callback>>,
    /// What should be said when the run starts.
    pub(super) notices: Vec<String>,
    /// Where a run that goes on stands.
    pub(super) progress: Option<Progress>,
}

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer")
            .field("config", &self.config)
            .field("devices", &self.devices)
            .field("folder", &self.folder.path())
            .finish_non_exhaustive()
    }
}

/// Opens the data for settings; may be called more than once.
pub(super) type Open<'a> = dyn Fn(&Config) -> Result<Split<Pipeline>> + 'a;

/// Everything of a run but its folder.
pub(super) struct Prepared {
    pub(super) config: Config,
    devices: Vec<Device>,
    pub(super) data: Split<Pipeline>,
    pub(super) learner: Learner,
    pub(super) memory: MemoryNeed,
    rates: Rates,
    pub(super) length: Length,
    notices: Vec<String>,
}

impl Trainer {
    /// Checks and opens everything that a run with `config` needs; whatever can be wrong before training is found here.
    ///
    /// # Errors
    /// [`Error::Config`] if a setting is out of range or does not go with another one; else what opening the device,
    /// the data and the weights gives, [`Error::Shape`] if the model does not take such samples, [`Error::OutOfMemory`]
    /// if it does not fit, and [`Error::Io`] if the run's folder cannot be made.
    pub fn new(config: Config) -> Result<Self> {
        Self::new_until(config, &Control::default())
    }

    /// The same; [`Error::Stopped`] if `control` says stop before it is done, in which devices are tried.
    pub(crate) fn new_until(config: Config, control: &Control) -> Result<Self> {
        Self::prepared(Prepared::new(config, &open, control)?)
    }

    /// The same beside another run, which it leaves alone.
    pub(crate) fn new_beside(config: Config) -> Result<Self> {
        Self::prepared(Prepared::on(config, &open, &Control::default(), devices::open_own)?)
    }

    /// The same with data of one's own instead of the one that `config` names: pipelines with the order and the
    /// operations on samples that they have; a training part whose order is not random is shuffled. How batches are
    /// made (their size, seed, epochs and augmentation) is for `config` to say. In the run's settings the data set is
    /// `program:` and the data's own name: [`Trainer::resume_with_data`] goes on with such a run.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use brasa::data::{Pipeline, Split, digits};
    /// use brasa::train::{Config, Control, Trainer};
    ///
    /// let data = digits()?;
    /// let few = |data| Pipeline::new(Arc::new(data)).take(100);
    /// # let out = tempfile::tempdir().unwrap();
    /// let config = Config { epochs: 1, device: Some("cpu".into()), out: out.path().into(), ..Config::default() };
    /// let summary = Trainer::with_data(config, Split::new(few(data.train), few(data.test)))?
    ///     .run(&Control::default(), &mut |_| {})?;
    /// assert_eq!(summary.test.unwrap().samples, 100);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Trainer::new`], but for opening the data; and if `config` has a part of them held out for validation, which
    /// is for the data to say.
    pub fn with_data(config: Config, data: Split<Pipeline>) -> Result<Self> {
        Self::prepared(Prepared::new(of_program(config, &data)?, &|_| Ok(data.clone()), &Control::default())?)
    }

    fn prepared(prepared: Prepared) -> Result<Self> {
        let Prepared { config, devices, .. } = &prepared;
        // last: what cannot start leaves no folder behind
        let prefix = format!("{}-{}", config.dataset.short(), config.model);
        let folder = RunFolder::create(&config.out, config.name.as_deref(), &prefix)?;
        folder.write("config.toml", config.to_toml().as_bytes())?;
        folder.write("environment.toml", Environment::new(devices, config.precision).to_toml().as_bytes())?;
        Ok(prepared.in_folder(folder, None))
    }

    /// Goes on with the run in `folder` from its last checkpoint, with `config`: that of the run
    /// ([`Trainer::config_of`]), or one with other settings, such as more epochs; another table's columns are found by
    /// the names, and standardised by the scales, of those that it has learned from. Its place, its name and the weights
    /// that it began with stay what they were. With the same settings, device, driver and build its weights end up the
    /// same, bit for bit, as those of a run that was never interrupted.
    ///
    /// # Errors
    /// If there is no checkpoint that can be read, or it is one of another model, or `config` has fewer epochs than
    /// have begun; or if the data were not opened by name, but given to [`Trainer::with_data`].
    pub fn resume(folder: &Path, config: Config) -> Result<Self> {
        Self::resume_until(folder, config, &Control::default())
    }

    /// The same; [`Error::Stopped`] if `control` says stop before it is done.
    pub(crate) fn resume_until(folder: &Path, config: Config, control: &Control) -> Result<Self> {
        // what cannot be read does not tell: no more do runs from before this was written
        let record = RunRecord::of(folder).ok().flatten();
        let columns = record.as_ref().and_then(|record| record.input.columns());
        let open = |config: &Config| {
            let data = open_with(config, &OpenOptions { columns: columns.clone(), ..config.open_options() })?;
            Ok(targets::learned(data, record.as_ref()))
        };
        Self::resumed(folder, config, &open, control)
    }

    /// The same for a run with data of one's own: those that [`Trainer::with_data`] was given when it began.
    ///
    /// # Errors
    /// If there is no checkpoint that can be read, or it is one of another model, or its place is none in these data,
    /// or another process trains in this run.
    pub fn resume_with_data(folder: &Path, config: Config, data: Split<Pipeline>) -> Result<Self> {
        let config = of_program(config, &data)?;
        let data = targets::learned(data, RunRecord::of(folder).ok().flatten().as_ref());
        Self::resumed(folder, config, &|_| Ok(data.clone()), &Control::default())
    }

    fn resumed(folder: &Path, mut config: Config, open: &Open<'_>, control: &Control) -> Result<Self> {
        RunFolder::check_ended(folder)?;
        // these say where the run lies and how it began, which nothing can change any more
        if let Ok(Config { out, name, weights, skip_weights, validation, .. }) = Self::config_of(folder) {
            if validation != config.validation {
                let message =
                    "validation: the run goes on with the parts that it began with: omit it, or begin a new run";
                return Err(Error::Config(message.into()));
            }
            config = Config { out, name, weights, skip_weights, ..config };
        }
        // the checkpoint has all weights; the file that the run began with may be gone
        let begun_with = (config.weights.take(), std::mem::take(&mut config.skip_weights));
        let mut prepared = Prepared::new(config, open, control)?;
        (prepared.config.weights, prepared.config.skip_weights) = begun_with;
        let checkpoints = folder.join(super::folder::CHECKPOINTS);
        let there = checkpoint::list(&checkpoints);
        let (path, state, progress) = newest(folder, &there, &prepared.devices[0], &mut prepared.notices)?;
        let (asked, begun) = (prepared.config.epochs, progress.epochs_begun());
        if asked < begun {
            let message = format!("epochs is {asked}, but {begun} have begun: give --epochs of at least {begun}");
            return Err(Error::Config(message));
        }
        check_learned(folder, &prepared.data)?;
        let environment = Environment::new(&prepared.devices, prepared.config.precision);
        if environment != progress.environment {
            let message = "the checkpoint was written with another device, driver or build: bits will differ";
            prepared.notices.push(message.into());
        }
        prepared.learner.load(state, progress.steps).map_err(|error| match error {
            Error::Shape(message) => Error::format(&path, message),
            Error::State(mismatch) => Box::new(StateMismatch { path: Some(path.clone()), ..*mismatch }).into(),
            other => other,
        })?;
        prepared.length = prepared.length.behind(&progress, &prepared.config, &prepared.data.train);
        prepared.rates = Rates::new(&prepared.config, prepared.length.steps)?;
        prepared.rates.load(progress.scheduler.clone(), progress.steps);
        if let Some(before) = progress.length.filter(|before| before.steps != prepared.length.steps) {
            let (steps, rate) = (prepared.length.steps, prepared.rates.now());
            let message = format!(
                "the run is now {steps} steps long instead of {}: its schedule ends there, and the learning rate goes on at {rate:.3e}",
                before.steps
            );
            prepared.notices.push(message);
        }
        crate::runtime::set_random_state(&prepared.devices[0], progress.random.into())?;
        let of_others: Vec<_> = progress.random_of_others.iter().map(|&state| state.into()).collect();
        prepared.learner.set_random_states_of_others(&of_others)?;
        // whatever refuses to go on does so before the folder is touched
        prepared.data.train.accepts(&progress.data)?;
        let is_unchanged = || match checkpoint::list(&checkpoints) == there {
            true => Ok(()),
            false => Err(Error::Config(format!(
                "{}: another process has gone on with the run meanwhile: resume it anew",
                folder.display()
            ))),
        };
        let run_folder = RunFolder::reopen(folder, progress.metrics_bytes, &mut prepared.notices, is_unchanged)?;
        checkpoint::set_aside(&run_folder.checkpoints(), progress.steps)?;
        run_folder.write("config.toml", prepared.config.to_toml().as_bytes())?;
        run_folder.write("environment.toml", environment.to_toml().as_bytes())?;
        Ok(prepared.in_folder(run_folder, Some(progress)))
    }

    /// The settings of the run in `folder`.
    ///
    /// # Errors
    /// If there is no run, or its settings cannot be read.
    pub fn config_of(folder: &Path) -> Result<Config> {
        let path = folder.join("config.toml");
        if folder.is_file() || path.try_exists().is_ok_and(|exists| !exists) {
            let why = match () {
                () if folder.is_dir() => "it has no config.toml",
                () if folder.exists() => "it is a file",
                () => "there is no such folder",
            };
            let message =
                format!("{} is not a run: {why}; runs are folders such as runs/digits-cnn-1", folder.display());
            return Err(Error::Config(message));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| Error::io(&path, error))?;
        // a run writes all its settings, and none at all would be read as those of a run without flags
        if text.trim_ascii().is_empty() {
            return Err(Error::format(path, "it is empty, where a run's settings were: put back what it was"));
        }
        Config::parse(&path, &text)
    }

    /// What it computes on; of several devices the first one, which evaluates.
    pub fn device(&self) -> &Device {
        &self.devices[0]
    }

    /// Adds a callback; they are called in the order in which they are added.
    pub fn add_callback(&mut self, callback: impl Callback + 'static) {
        self.callbacks.push(Box::new(callback));
    }

    /// Adds the callback that writes TensorBoard's event files, with the settings of this run, unless they switch it
    /// off.
    pub fn add_tensorboard(&mut self) {
        if !self.config.tensorboard {
            return;
        }
        let table = toml::Table::try_from(&self.config).unwrap_or_default();
        let setting = |(name, value): (String, toml::Value)| {
            let setting = match value {
                toml::Value::Boolean(truth) => Setting::Truth(truth),
                toml::Value::Integer(number) => Setting::Number(number as f64),
                toml::Value::Float(number) => Setting::Number(number),
                toml::Value::String(text) => Setting::Text(text),
                other => Setting::Text(other.to_string()),
            };
            (name, setting)
        };
        let every = self.config.log_every;
        self.add_callback(TensorBoard::new(every, table.into_iter().map(setting).collect()));
    }

    /// Trains to the end, or until `control` says stop, and saves. `listen` hears what happens as it happens.
    ///
    /// If a step fails, what was learned before it is saved, too.
    ///
    /// # Errors
    /// What ended the training: [`Error::NonFinite`] where the loss or a gradient is NaN or infinite, a device that is
    /// lost or out of memory, data that cannot be read, a folder that cannot be written to, or a callback's error.
    pub fn run(self, control: &Control, listen: &mut dyn FnMut(Event)) -> Result<Summary> {
        Run::new(self, listen).complete(control)
    }
}

/// An error if the run in `folder` has learned other classes than there are now, as each would be taken for another; or
/// if it was judged by another part, whose scores say nothing of this one's.
fn check_learned(folder: &Path, data: &Split<Pipeline>) -> Result<()> {
    // what cannot be read does not tell
    let Ok(Some(record)) = RunRecord::of(folder) else { return Ok(()) };
    let now = data.train.description();
    let name = &now.name;
    record.check_asked(now, "run", "go on with data of")?;
    let (before, now) = (record.start.judged_by(), HeldOut::of(data));
    if before != now {
        let (before, now) = (before.name(), now.name());
        let message = format!(
            "the run was judged by a {before} part, and `{name}` would have it judged by a {now} part: go on with the parts that \
             it began with, or begin a new run with its weights"
        );
        return Err(Error::Config(message));
    }
    Ok(())
}

impl Prepared {
    pub(super) fn new(config: Config, open: &Open<'_>, control: &Control) -> Result<Self> {
        Self::on(config, open, control, devices::open)
    }

    /// The same on devices that are opened so.
    pub(super) fn on(config: Config, open: &Open<'_>, control: &Control, opened: OpenDevices) -> Result<Self> {
        let go_on = || if control.stopping() { Err(Error::stopped()) } else { Ok(()) };
        let mut config = config.resolve()?;
        let mut notices = Vec::new();
        let chosen =
            (config.device.as_deref() == Some(AUTO)).then(|| choose(&config, open, control, opened)).transpose()?;
        go_on()?;
        if let Some(chosen) = &chosen {
            config.device = Some(chosen.device.clone());
        }
        let devices = opened(config.device.as_deref())?;
        let data = batched(open(&config)?, &config)?;
        let judge = data.judged_by();
        let formats = [data.train.format(), judge.format()];
        let (mut learner, loaded) = Learner::new(&config, formats, &devices)?;
        if let (Some(path), Some(loaded)) = (&config.weights, loaded) {
            notices.push(loaded.describe(path)?);
        }
        let rows = batch_rows(&config, &data.train);
        learner.check_rows(&rows)?;
        notices.extend(what_is_left_out(&config, &data.train));
        let length = Length::new(&config, &data.train);
        let rates = Rates::new(&config, length.steps)?;
        let memory = memory_need(&mut learner, &rows, judge.batch_size(), &devices[0])?;
        notices.extend(too_small(&mut learner, &rows)?);
        let Description { shape, .. } = data.train.description();
        // pictures are a byte for each pixel and color
        let each = if shape.len() == 3 { 1 } else { size_of::<f32>() };
        let (samples, bytes) = (data.train.samples_per_epoch(), each * shape.iter().product::<usize>());
        let volume = Volume { epochs: config.epochs, samples, bytes, steps: length.steps as usize };
        notices.extend(chosen.map(|chosen| chosen.in_words(&memory, &volume)));
        if !memory.fits() {
            tracing::warn!("{memory}");
        }
        // this compiles, for which a new device may take long
        go_on()?;
        learner.prepare(&rows, judge.batch_size()).inspect_err(|_| {
            // what it would have taken, unless that was told
            if memory.fits() {
                tracing::warn!("{memory}");
            }
        })?;
        Ok(Self { config, devices, data, learner, memory, rates, length, notices })
    }

    fn in_folder(self, folder: RunFolder, progress: Option<Progress>) -> Trainer {
        let Self { config, devices, data, learner, memory, rates, length, notices } = self;
        let mut callbacks: Vec<Box<dyn Callback>> = Vec::new();
        if let Some(patience) = config.patience {
            callbacks.push(Box::new(EarlyStopping::new(patience)));
        }
        Trainer { config, devices, folder, data, learner, memory, rates, length, callbacks, notices, progress }
    }
}

/// The newest checkpoint of the run in `folder` that can be read; what cannot be read is noticed.
fn newest(
    folder: &Path,
    checkpoints: &[(u64, PathBuf)],
    device: &Device,
    notices: &mut Vec<String>,
) -> Result<(PathBuf, std::collections::BTreeMap<String, Tensor>, Progress)> {
    let mut left_out = Vec::new();
    for (_, path) in checkpoints {
        match checkpoint::load(path, device) {
            Ok((state, progress)) => {
                notices.append(&mut left_out);
                return Ok((path.clone(), state, progress));
            }
            Err(error @ (Error::Format { .. } | Error::Io { .. })) => left_out.push(format!("left out: {error}")),
            Err(error) => return Err(error),
        }
    }
    let message = format!("{}: there is no checkpoint that the run could go on from", folder.display());
    let mut message = left_out.iter().fold(message, |message, notice| message + "; " + notice);
    if left_out.is_empty() {
        message += "; the run ended before its first one, and --save-every says how soon that is written";
    }
    if let Some(weights) = [WEIGHTS, BEST].map(|name| folder.join(name)).into_iter().find(|path| path.is_file()) {
        message += &format!("; a new run can begin with its weights: --weights {}", weights.display());
    }
    Err(Error::Config(message))
}

/// The data that `config` names.
pub(super) fn open(config: &Config) -> Result<Split<Pipeline>> {
    open_with(config, &config.open_options())
}

/// The same, opened in this way.
pub(super) fn open_with(config: &Config, options: &OpenOptions) -> Result<Split<Pipeline>> {
    let data = data::open(&config.dataset, options)?;
    if config.validation.is_some() && data.validation.is_some() {
        let name = &config.dataset;
        return Err(Error::Config(format!("validation: `{name}` has a validation part of its own: omit it")));
    }
    Ok(pipelines(data, config))
}

/// These parts, and where there is none to validate with, the one that `config` has held out.
pub(super) fn pipelines(data: Split<Arc<dyn Dataset>>, config: &Config) -> Split<Pipeline> {
    let held_out = config.validation.filter(|_| data.validation.is_none());
    let data = match held_out {
        Some(percent) => data.with_validation(percent),
        None => data,
    };
    data.map(Pipeline::new)
}

/// `config` with the truth about where its data come from: settings name a data set even if they were not asked for
/// one.
fn of_program(config: Config, data: &Split<Pipeline>) -> Result<Config> {
    if config.validation.is_some() {
        let message = "validation is for data that are opened by name: put a validation part beside the others";
        return Err(Error::Config(message.into()));
    }
    Ok(Config { dataset: DatasetName::Program(data.train.description().name.clone()), ..config })
}

/// The streams of batches that `config` asks for.
pub(super) fn batched(data: Split<Pipeline>, config: &Config) -> Result<Split<Pipeline>> {
    let prepared = |pipeline: Pipeline| {
        let pipeline = pipeline.workers(config.workers).seed(config.seed.into()).strict(config.strict);
        let pipeline = match config.image_size {
            Some(side) if pipeline.description().shape.len() == 3 => pipeline.resize(side, side),
            _ => pipeline,
        };
        let of = pipeline.description();
        if of.shape.contains(&0) {
            let message = "pictures differ in size, so they do not fit in a batch: give image-size";
            return Err(Error::Config(format!("{}: {message}", of.name)));
        }
        Ok(if config.cache { pipeline.cache(Cache::Memory) } else { pipeline })
    };
    let data = data.map(prepared).transpose()?;
    if config.cache {
        fits_memory(&[&data.train, data.judged_by()])?;
    }
    let named =
        [(Some(&data.train), "training"), (data.validation.as_ref(), "validation"), (Some(&data.test), "testing")];
    for (part, what) in named.into_iter().filter_map(|(part, what)| Some((part?, what))) {
        if part.samples_per_epoch() == 0 {
            return Err(Error::Config(format!("{}: there is no sample for {what}", part.description().name)));
        }
    }
    let data = targets::settled(data)?;
    let data = match config.class_weights {
        Some(ClassWeights::Balanced) => targets::counted(data)?,
        _ => data,
    };
    // room is made for whole batches, and padded rows are computed, too: no more rows than there are samples
    let rows = |of: &Pipeline| config.batch_size.min(of.samples_per_epoch());
    let Split { train, validation, test } = data;
    let train = if train.is_shuffled() { train } else { train.shuffle() };
    let batch = rows(&train);
    let train =
        train.augment(config.augment.clone(), config.augment_on).batch(batch, Last::KeepSeveral).epochs(config.epochs);
    let judging = |part: Pipeline| {
        let batch = rows(&part);
        // judged as they are, once each time, whatever the pipeline was for
        part.augment(Augment::default(), On::Host).epochs(1).batch(batch, Last::Pad)
    };
    Ok(Split { train, validation: validation.map(judging), test: judging(test) })
}

/// Bytes that a sample takes in memory beside its numbers: itself, and a little for each of the pieces it is allocated
/// in.
const ASIDE: usize = size_of::<Sample>() + 3 * 16;

/// An error if the samples of these pipelines, a byte for each pixel and color and for each pixel of a mask, are more
/// than the memory that is free, where the system tells.
fn fits_memory(pipelines: &[&Pipeline]) -> Result<()> {
    let bytes = |pipeline: &&Pipeline| {
        let Description { shape, goal, .. } = pipeline.description();
        let input: usize = shape.iter().product();
        let bytes = match (&shape[..], goal) {
            ([_, height, width], Goal::Segment) => input + height * width,
            ([_, _, _], Goal::Classify | Goal::Regress) => input,
            _ => input * size_of::<f32>(),
        };
        pipeline.samples_per_epoch() as u64 * (bytes + ASIDE) as u64
    };
    let needed: u64 = pipelines.iter().map(bytes).sum();
    match crate::sensors::host_free_bytes() {
        Some(free) if needed > free => {
            let (needed, free) = (crate::units::bytes(needed), crate::units::bytes(free));
            Err(Error::Config(format!(
                "cache: the pictures take {needed} of memory and {free} are free: train without it"
            )))
        }
        _ => Ok(()),
    }
}

/// Rows of the batches of an epoch: of whole ones, and of the last one if it is smaller. A single
/// sample that is left is no batch.
pub(super) fn batch_rows(config: &Config, train: &Pipeline) -> Vec<usize> {
    let samples = train.samples_per_epoch();
    let mut rows = vec![config.batch_size.min(samples)];
    rows.extend(Some(samples % config.batch_size).filter(|&last| last > 1 && last != rows[0]));
    rows
}

/// What is said if a single sample is left at the end of each epoch.
fn what_is_left_out(config: &Config, train: &Pipeline) -> Option<String> {
    let (samples, rows) = (train.samples_per_epoch(), config.batch_size);
    (samples > rows && rows > 1 && samples % rows == 1).then(|| {
        format!(
            "each epoch leaves out one of {samples} training samples, a different one each time: batches of {rows} leave \
             a single one, in which batch norms find no variance; another batch-size takes all"
        )
    })
}

fn memory_need(learner: &mut Learner, rows: &[usize], evaluate_rows: usize, device: &Device) -> Result<MemoryNeed> {
    let (training, inference) = learner.forecast(rows, evaluate_rows)?;
    let needed_bytes = training.new_bytes() + inference.new_bytes();
    Ok(MemoryNeed { training, inference, needed_bytes, free_bytes: device.free_memory() })
}

/// What is said of the devices beside the first one that have not the memory for it.
fn too_small(learner: &mut Learner, rows: &[usize]) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for (device, forecast) in learner.forecasts_of_others(rows)? {
        if let Some(free) = device.free_memory().filter(|&free| forecast.new_bytes() > free) {
            let (needed, free) = (crate::units::bytes(forecast.new_bytes()), crate::units::bytes(free));
            said.push(format!("training needs {needed} on {}, where {free} are free", device.name()));
        }
    }
    Ok(said)
}
