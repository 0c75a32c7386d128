//! `brasa infer`: what a run's model says about pictures and rows of tables.

mod answers;
mod inputs;
mod masks;

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use crate::bench;
use crate::data::Sample;
use crate::error::{Error, Result};
use crate::train::{MAX_IMAGE_SIDE, Predictor, Preprocessing};
use crate::units::{bytes, counted, thousands};

use answers::{Answer, failure, line, object};
use inputs::{Given, Inputs};
use masks::Masks;

/// Samples that are answered at once where all are there from the beginning.
const BATCH: usize = 32;
/// Batches of which the time is known in the end.
const KEPT: usize = 4096;
/// Batches that are read ahead.
const AHEAD: usize = 2;

/// Flags of `brasa infer`.
#[derive(clap::Args)]
pub(super) struct InferArgs {
    /// The run's folder, or a model of any program's as FILE.onnx
    run: PathBuf,
    /// Pictures, folders of them, tables (FILE.csv) with a row of features in each line (columns are found by the names
    /// in the first one, if it has some), or `-`: standard input, with a picture, or the name of one in each line (of a
    /// model for tables, a row), answered as they come [default: -]
    #[arg(value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Weights to answer with [default: those of the run's best evaluation, or its last ones]
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Where to compute: best, cpu, gpu, gpu:N or part of a name (see `brasa devices`) [default: the device of the run]
    #[arg(long, value_name = "DEVICE", env = "BRASA_DEVICE")]
    device: Option<String>,
    /// Of an ONNX file that does not say: what of each channel becomes 0, where levels go from 0 to 1 (ImageNet's are
    /// 0.485,0.456,0.406), or of each column of a table
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "std", conflicts_with = "weights")]
    mean: Option<Vec<f32>>,
    /// And how much becomes 1 (ImageNet's are 0.229,0.224,0.225)
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', requires = "mean", conflicts_with = "weights")]
    std: Option<Vec<f32>>,
    /// Height and width of the pictures that an ONNX file's model is given, where it leaves them open: one number, or two
    /// such as 480x640
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "weights")]
    image_size: Option<[usize; 2]>,
    /// Names of the classes, a line each [default: those in the run or the file, or numbers]
    #[arg(long, value_name = "FILE", conflicts_with = "weights")]
    classes: Option<PathBuf>,
    /// How many are answered at once [default: 32, or 1 from standard input]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    batch_size: Option<u16>,
    /// How many of the likeliest classes to print, or of those with the most pixels [default: 3, or all of pixels]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,
    /// Write the classes of all pixels as PNGs of the pictures' sizes into this folder, for models that segment
    #[arg(long, value_name = "FOLDER")]
    masks: Option<PathBuf>,
    /// Keep the weights in 8 bits: a quarter of the memory, and answers that differ a little (`brasa eval --quantize`)
    #[arg(long)]
    quantize: bool,
    /// Write one JSON object for each input to standard output
    #[arg(long)]
    json: bool,
}

/// Answers and prints.
pub(super) fn run(args: &InferArgs) -> Result<ExitCode> {
    let from_standard_input = args.inputs.is_empty() || args.inputs.iter().any(|input| input.as_os_str() == "-");
    if from_standard_input && std::io::stdin().is_terminal() {
        let message = "infer: name pictures, folders or tables behind the run, or send pictures to standard input";
        return Err(Error::Config(message.into()));
    }
    let mut predictor = opened(args)?;
    if args.quantize {
        let done = predictor.quantize()?;
        super::say(&format!("weights in 8 bits: {} instead of {}", bytes(done.bytes), bytes(done.bytes_before)));
    }
    if args.top.is_some() && predictor.input().regresses {
        return Err(Error::Config("top: the model predicts numbers, and all of them are told".into()));
    }
    if let Some(top) = args.top {
        predictor = predictor.with_likeliest(top.into());
    }
    if args.masks.is_some() && !predictor.input().segments {
        let does = if predictor.input().regresses { "predicts numbers" } else { "classifies pictures" };
        return Err(Error::Config(format!("masks: the model {does}, not their pixels")));
    }
    let batch_size = args.batch_size.map_or(if from_standard_input { 1 } else { BATCH }, usize::from);
    let (predictor, mut timed) = (Arc::new(predictor), Timed::new());
    if print_all(args, &predictor, batch_size, &mut timed)? {
        super::say(&timed.summary(&predictor, batch_size));
    }
    Ok(ExitCode::from(u8::from(timed.failed + timed.without_mask > 0)))
}

/// The model that is asked.
fn opened(args: &InferArgs) -> Result<Predictor> {
    let device = args.device.as_deref();
    if args.run.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
        if args.weights.is_some() {
            return Err(Error::Config("weights: those of an ONNX model are in its file".into()));
        }
        let scale = args.mean.clone().zip(args.std.clone());
        let classes = args.classes.as_deref().map(class_names).transpose()?;
        return Predictor::open_onnx(&args.run, &Preprocessing { scale, classes, size: args.image_size }, device);
    }
    if args.mean.is_some() || args.classes.is_some() || args.image_size.is_some() {
        let message = "mean, std, classes and image-size: a run knows its own; they are for FILE.onnx";
        return Err(Error::Config(message.into()));
    }
    match &args.weights {
        Some(weights) => Predictor::open_with(&args.run, weights, device),
        None => Predictor::open_best(&args.run, device),
    }
}

/// Height and width.
fn size(text: &str) -> Result<[usize; 2], String> {
    let (height, width) = text.split_once('x').unwrap_or((text, text));
    let side = |text: &str| text.parse().ok().filter(|side| (1..=MAX_IMAGE_SIDE).contains(side));
    let both = side(height).zip(side(width)).map(|(height, width)| [height, width]);
    both.ok_or_else(|| format!("a size is a number from 1 to {MAX_IMAGE_SIDE}, or HEIGHTxWIDTH, such as 480x640"))
}

/// The lines of a file.
fn class_names(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
}

/// Answers all inputs; false if nobody reads the answers.
fn print_all(args: &InferArgs, predictor: &Arc<Predictor>, batch_size: usize, timed: &mut Timed) -> Result<bool> {
    let told = if args.json { object } else { line };
    // It reads and decodes ahead of the device, ends if nobody takes what it has read, and is not waited for: standard
    // input may stay open.
    let (sender, receiver) = sync_channel(AHEAD);
    let inputs = Inputs::new(&args.inputs, predictor);
    if let Some(folder) = &args.masks {
        // before all the work
        Masks::check(folder, &inputs.places())?;
    }
    let mut masks = args.masks.as_deref().map(Masks::new);
    let reader = std::thread::spawn(move || inputs.read(batch_size, &mut |batch| sender.send(batch).is_ok()));
    for batch in receiver {
        for (name, answer) in answered(predictor, batch, batch_size, masks.as_mut(), timed)? {
            let error = match &answer {
                Ok(answer) => {
                    let error = answer.mask.as_ref().and_then(|mask| mask.as_ref().err());
                    timed.without_mask += usize::from(error.is_some());
                    error
                }
                Err(error) => {
                    timed.failed += 1;
                    Some(error)
                }
            };
            if let Some(error) = error.filter(|_| !args.json) {
                super::report_error(error);
            }
            let text = match &answer {
                Ok(answer) => told(&name, answer, predictor, args.top.map(usize::from)),
                Err(error) if args.json => failure(&name, error),
                Err(_) => continue,
            };
            if !super::print_while_read(&text)? {
                return Ok(false);
            }
        }
    }
    // what it panicked with is told; nothing that is left was answered
    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok(true)
}

/// What the model says about the inputs of a batch; an error where one could not be read, or its mask not be written.
fn answered(
    predictor: &Predictor,
    batch: Vec<Given>,
    batch_size: usize,
    mut masks: Option<&mut Masks>,
    timed: &mut Timed,
) -> Result<Vec<(String, Result<Answer>)>> {
    let mut samples: Vec<Sample> =
        batch.iter().filter_map(|given| Some(given.read.as_ref().ok()?.sample.clone())).collect();
    let count = samples.len();
    if let Some(last) = samples.last().cloned().filter(|_| timed.batches > 0 || batch.len() == batch_size) {
        // as many as in all others, for which everything is compiled
        samples.resize(batch_size, last);
    }
    let start = Instant::now();
    let mut said = predictor.predict(&samples)?.into_iter();
    if count > 0 {
        timed.add(start.elapsed(), count);
    }
    let shape = &predictor.input().shape;
    let mut of = |Given { name, place, read }: Given| {
        let answer = read.map(|picture| {
            let (said, size) = (said.next().expect("one for each that was read"), picture.size);
            let write = |masks: &mut Masks| masks.write(&place, &said.mask, [shape[1], shape[2]], size);
            let mask = masks.as_deref_mut().map(write);
            Answer { said, size, mask }
        });
        (name, answer)
    };
    Ok(batch.into_iter().map(&mut of).collect())
}

/// How long answers took.
struct Timed {
    begun: Instant,
    batches: usize,
    answered: usize,
    /// Without an answer.
    failed: usize,
    /// With an answer, but without the mask that was to be written.
    without_mask: usize,
    /// The first one, for which kernels are compiled.
    first: Duration,
    /// The last ones of the others, from handing over the samples to having the answers.
    others: VecDeque<Duration>,
}

impl Timed {
    fn new() -> Self {
        let (first, others) = (Duration::ZERO, VecDeque::new());
        Self { begun: Instant::now(), batches: 0, answered: 0, failed: 0, without_mask: 0, first, others }
    }

    fn add(&mut self, took: Duration, count: usize) {
        self.batches += 1;
        self.answered += count;
        if self.batches == 1 {
            self.first = took;
        } else {
            self.others.push_back(took);
            if self.others.len() > KEPT {
                self.others.pop_front();
            }
        }
    }

    fn summary(&self, predictor: &Predictor, batch_size: usize) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        let what = if predictor.input().shape.len() == 3 { "picture" } else { "row" };
        let rate = thousands((self.answered as f64 / seconds).round() as u64);
        let (count, device) = (counted(self.answered, what), predictor.device().name());
        let mut text = match self.answered {
            0 => format!("no answers on {device}"),
            _ => format!("{count} in {seconds:.2} s on {device}, reading included: {rate} a second"),
        };
        let mut others: Vec<f64> = self.others.iter().map(Duration::as_secs_f64).collect();
        others.sort_by(f64::total_cmp);
        if !others.is_empty() {
            let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
            let of = if batch_size == 1 { "one".to_owned() } else { format!("a batch of {batch_size}") };
            let [median, most] = [0.5, 0.95].map(|part| milliseconds(bench::at(&others, part)));
            let first = milliseconds(self.first.as_secs_f64());
            text +=
                &format!("\n{of}: {median} (median), {most} (95th percentile), {first} (the first, which compiles)");
        }
        if self.failed > 0 {
            text += &format!("\n{} without an answer", counted(self.failed, "input"));
        }
        if self.without_mask > 0 {
            text += &format!("\n{} without a mask", counted(self.without_mask, "answer"));
        }
        text
    }
}
