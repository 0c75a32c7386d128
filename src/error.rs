//! What can go wrong outside of the program. A wrong shape in the caller's own code is a panic instead.

mod state;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::dtype::DType;
use crate::shape::{MAX_ELEMENTS, Shape};
use crate::units;

pub use state::StateMismatch;

/// An error whose message says what happened and what to do about it. `{:?}` writes the message, too, as that is what
/// a `main` that returns an error, or an `unwrap`, shows.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no GPU adapter.
    #[error(
        "no GPU adapter found: install a Vulkan, Metal or DX12 driver (on Debian, mesa-vulkan-drivers has a software one), or use `--device cpu`"
    )]
    NoAdapter,
    /// No device has that name.
    #[error("unknown device `{name}`; known are: {known}")]
    UnknownDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The device could not be opened.
    #[error("cannot open device {device}: {reason}; try another one with `--device` (see `brasa devices`)")]
    DeviceOpen {
        /// Its name.
        device: String,
        /// The driver's words.
        reason: String,
    },
    /// The device went away while work was under way.
    #[error(
        "device {device} was lost ({reason}); its tensors are gone: restart from the last checkpoint, on another device if it happens again"
    )]
    DeviceLost {
        /// Its name.
        device: String,
        /// The driver's words.
        reason: String,
    },
    /// No memory for a tensor.
    #[error(
        "out of memory on {device}: {what} needs {} while {} are in use (at most {} so far){}; use a smaller batch or model",
        units::bytes(*.needed_bytes), units::bytes(*.live_bytes), units::bytes(*.peak_bytes), list_largest(.largest)
    )]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        needed_bytes: u64,
        /// Bytes that brasa has in use there.
        live_bytes: u64,
        /// The most bytes that were in use so far.
        peak_bytes: u64,
        /// What takes most of it, largest first.
        largest: Vec<LiveMemory>,
    },
    /// More memory in one piece than the device's buffers hold, whatever is free.
    #[error(
        "{what} needs {} in one piece, and the buffers of {device} hold {} at most: work on parts of it, as with a smaller batch, or on a device with larger ones (the CPU has no such limit)",
        units::bytes(*.needed_bytes), units::bytes(*.limit_bytes)
    )]
    BufferTooLarge {
        /// The device's name.
        device: String,
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        needed_bytes: u64,
        /// Bytes of the device's largest buffer.
        limit_bytes: u64,
    },
    /// The driver reported an error.
    #[error("device {device} reported: {message}")]
    Device {
        /// Its name.
        device: String,
        /// The driver's words.
        message: String,
    },
    /// A kernel could not be built: a bug here or in a driver.
    #[error("kernel `{kernel}` does not compile: {message}; please report this with the output of `BRASA_DUMP=dir`")]
    Kernel {
        /// Its label.
        kernel: String,
        /// The compiler's words.
        message: String,
    },
    /// An own kernel ([`crate::custom`]) is not what it has to be, or the device cannot run it.
    #[error("kernel `{kernel}`{}: {message}", at_line(*.line))]
    CustomKernel {
        /// Its name.
        kernel: String,
        /// The line of its WGSL, from 1, if the problem is in one.
        line: Option<u32>,
        /// What is wrong; for what is no valid WGSL, the compiler's words with an excerpt.
        message: String,
    },
    /// A kernel that works on a value as a whole, such as a sort, reads or writes more than the device can bind; or one
    /// reads values in so many parts that it has no bindings left.
    #[error(
        "`{kernel}` works on {} as one piece, and this device binds at most {} at once; \
         work on parts of the tensor, as with a smaller batch, or on a device with larger bindings (the CPU has no such limit)",
        units::bytes(*.bytes), units::bytes(*.limit_bytes)
    )]
    BindingTooLarge {
        /// The kernel's label, with the op and its module.
        kernel: String,
        /// Bytes of the value.
        bytes: u64,
        /// Bytes of the device's largest binding.
        limit_bytes: u64,
    },
    /// A value that would have to be in memory, or an axis of a kernel, is longer than indices of 32 bits reach.
    #[error(
        "{what} has {elements} elements, more than the {MAX_ELEMENTS} that indices of 32 bits reach: work on parts of it"
    )]
    TooManyElements {
        /// The op, with its line or its kernel.
        what: String,
        /// How many there are; the largest `usize` stands for any more.
        elements: usize,
    },
    /// An index or label that comes from data lies outside its range.
    #[error("{op} at {location}: {}", out_of_range(.op, *.bound))]
    IndexOutOfRange {
        /// The op that saw it.
        op: String,
        /// The caller's line.
        location: String,
        /// The size it must stay below.
        bound: usize,
    },
    /// A step of a training run met NaN or infinity and was not applied: what is learned is as it was before that step.
    #[error("step {step}: {message}; the step was not applied: lower the learning rate or check the data")]
    NonFinite {
        /// Number of the step.
        step: u64,
        /// The op, module and line where the first non-finite value appeared, as far as they could be found.
        message: String,
    },
    /// A captured step met NaN or infinity in one of its runs and has changed nothing since.
    #[error(
        "a loss or gradient was NaN or infinite in run {runs} of the step or before, and nothing has changed since: \
         Step::diagnose finds where it comes from, Step::resume goes on; lower the learning rate or check the data"
    )]
    Halted {
        /// Runs so far, of which it was one.
        runs: u64,
    },
    /// `BRASA_VALIDATE=1` found a kernel that differs from the f64 reference.
    #[error("kernel `{kernel}` on {device} differs from the reference at index {index}: {got} instead of {expected}")]
    Validation {
        /// Its label.
        kernel: String,
        /// The device and driver.
        device: String,
        /// The first index that differs.
        index: usize,
        /// The device's value.
        got: f64,
        /// The reference's value.
        expected: f64,
    },
    /// The value is not known while a step is being traced.
    #[error(
        "{what} inside a captured step: its value is not known while the step is traced; return the tensor from the step and read it outside"
    )]
    Traced {
        /// The call, with its line.
        what: String,
    },
    /// A variable was set while a step is traced, which happens once and not in every run.
    #[error(
        "setting `{name}` at {location} inside a captured step would happen once, not in every run: use Var::assign"
    )]
    SetInStep {
        /// The variable's name.
        name: String,
        /// The call's line.
        location: String,
    },
    /// A step was run, prepared or diagnosed while another one is traced, which happens once and not in every run.
    #[error(
        "running a step at {location} inside another one would happen once, not in every run: \
         call the function that it was made of instead, or run it before and hand over what it gives as inputs"
    )]
    StepInStep {
        /// The call's line.
        location: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// A file's contents are not what they should be.
    #[error("{path}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// Files of a published data set are not where they should be.
    #[error(
        "data set {name} is not in {}: fetch it with `brasa data {name} --download{}`, or put these files there: {}",
        folder.display(), data_dir_flag(.data_dir.as_deref()), files.join(" ")
    )]
    DataMissing {
        /// The data set.
        name: String,
        /// The folder that its files belong in.
        folder: PathBuf,
        /// The folder of all data sets, if one was named.
        data_dir: Option<PathBuf>,
        /// The addresses of those that are missing.
        files: Vec<String>,
    },
    /// A file could not be fetched.
    #[error("cannot fetch {url}: {reason}; a copy from elsewhere may be put in its place, {}{}", to.display(), list_others(.others))]
    Download {
        /// Where it is.
        url: String,
        /// Where it belongs.
        to: PathBuf,
        /// What went wrong.
        reason: String,
        /// Addresses of further files of the same set that are not there, and were not tried.
        others: Vec<String>,
    },
    /// What a model computes cannot be written in a format of other programs.
    #[error("cannot write the model as ONNX: {0}")]
    Export(String),
    /// Named weights are not those of the model they were meant for.
    #[error(transparent)]
    State(#[from] Box<StateMismatch>),
    /// The place in the data that a run should go on from is none of this pipeline.
    #[error("cannot go on in the data where the last run was: {0}")]
    Resume(String),
    /// A setting is unknown or out of range.
    #[error("{0}")]
    Config(String),
    /// The caller asked for the work to stop.
    #[error("stopped before its end{}", after_semicolon(.kept))]
    Stopped {
        /// What there is of it by then, and how it goes on; empty if there is nothing.
        kept: String,
    },
    /// Shapes or types do not fit in a place where user input decides.
    #[error("{0}")]
    Shape(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A piece of memory in use, and what it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveMemory {
    /// Its size.
    pub bytes: u64,
    /// A variable's name, an op, or another purpose in words.
    pub what: String,
    /// Type and shape of the value in it, if it holds a single one.
    pub value: Option<(DType, Shape)>,
    /// The user's line that it comes from, `file:line:column`.
    pub location: Option<String>,
}

impl fmt::Display for LiveMemory {
    /// What, type, shape and line: `conv1.weight f32 [64, 3, 7, 7] at src/main.rs:12:9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some((dtype, shape)) = &self.value {
            write!(f, " {dtype} {shape}")?;
        }
        self.location.iter().try_for_each(|location| write!(f, " at {location}"))
    }
}

/// `; the largest are 3 MiB for …, …` or nothing.
fn list_largest(largest: &[LiveMemory]) -> String {
    let pieces: Vec<String> = largest.iter().map(|live| format!("{} for {live}", units::bytes(live.bytes))).collect();
    if pieces.is_empty() { String::new() } else { format!("; the largest are {}", pieces.join(", ")) }
}

/// ` --data-dir FOLDER`, as a shell takes it, or nothing.
fn data_dir_flag(folder: Option<&Path>) -> String {
    folder.map(|folder| format!(" --data-dir {}", shell_word(folder))).unwrap_or_default()
}

/// A path as a shell takes it.
pub(crate) fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |sign: char| sign.is_alphanumeric() || "/._-+:\\".contains(sign);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// `; beside it belong …` or nothing.
fn list_others(others: &[String]) -> String {
    if others.is_empty() {
        String::new()
    } else {
        format!("; beside it belong, and are missing too: {}", others.join(" "))
    }
}

/// `; some text` or nothing.
fn after_semicolon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("; {text}") }
}

/// What the op was given. Draws by weights fail as indices do: what no weight stands for is none.
fn out_of_range(op: &str, bound: usize) -> String {
    if op.starts_with("multinomial") {
        return "a row of weights is all 0, or has one that is negative or not finite".into();
    }
    format!("an index lies outside 0..{bound}; check the data (labels, token numbers)")
}

/// ` in line n of its WGSL` or nothing.
fn at_line(line: Option<u32>) -> String {
    line.map(|line| format!(" in line {line} of its WGSL")).unwrap_or_default()
}

/// `Result` with brasa's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// What was asked for is not wanted any more, and nothing of it is kept.
    pub(crate) fn stopped() -> Self {
        Self::Stopped { kept: String::new() }
    }

    /// An I/O error at `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    /// A malformed file at `path`.
    pub fn format(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Format { path: path.into(), reason: reason.into() }
    }
}

/// What a panic said, if it was words.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}
