//! What is to be answered: files, folders, tables, and what comes over standard input.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord, Trim};
use rayon::prelude::*;

use crate::data::{MAX_PICTURE_BYTES, Sample, is_picture_name};
use crate::error::{Error, Result};
use crate::pool;
use crate::train::{GivenPicture, Predictor};
use crate::units::counted;

/// Folders in each other; more are a link that leads back up.
const MAX_DEPTH: usize = 32;
/// The longest name of a file in standard input.
const MAX_NAME: u64 = 1 << 16;
/// What standard input is called.
const STANDARD_INPUT: &str = "standard input";

/// An input, and how it could be read.
pub(super) struct Given {
    /// What the answer is told for.
    pub(super) name: String,
    /// Where it lies below the folder that was named, or its file's name: what its mask is called. Empty of what is no file.
    pub(super) place: PathBuf,
    /// What the model is given.
    pub(super) read: Result<GivenPicture>,
}

/// An input before it is read.
enum Source {
    File {
        path: PathBuf,
        place: PathBuf,
    },
    /// A whole picture.
    Bytes(Vec<u8>),
    /// Of a table, with its place there.
    Row {
        name: String,
        fields: StringRecord,
    },
    Failed {
        name: String,
        error: Error,
    },
}

/// All inputs, in order.
pub(super) struct Inputs {
    named: Vec<PathBuf>,
    predictor: Arc<Predictor>,
}

/// Takes an input; false if no more are wanted.
type Take<'a> = &'a mut dyn FnMut(Source) -> bool;

impl Inputs {
    /// What goes by these names; nothing is standard input.
    pub(super) fn new(named: &[PathBuf], predictor: &Arc<Predictor>) -> Self {
        let named = if named.is_empty() { vec![PathBuf::from("-")] } else { named.to_vec() };
        Self { named, predictor: Arc::clone(predictor) }
    }

    /// Reads all of them, and hands them over in batches until `send` says that no more are wanted. What cannot be read is
    /// handed over as an error.
    pub(super) fn read(&self, batch_size: usize, send: &mut dyn FnMut(Vec<Given>) -> bool) {
        let mut waiting = Vec::with_capacity(batch_size);
        let mut take = |source| {
            waiting.push(source);
            waiting.len() < batch_size || send(self.together(std::mem::take(&mut waiting)))
        };
        let wanted = self.named.iter().all(|path| self.each(path, &mut take));
        if wanted && !waiting.is_empty() {
            send(self.together(waiting));
        }
    }

    fn together(&self, sources: Vec<Source>) -> Vec<Given> {
        pool::run(|| sources.into_par_iter().map(|source| self.given(source)).collect())
    }

    fn given(&self, source: Source) -> Given {
        match source {
            Source::File { path, place } => {
                Given { name: path.display().to_string(), place, read: self.predictor.read_picture(&path) }
            }
            Source::Bytes(bytes) => {
                let read = self.predictor.decode_picture(&bytes, Path::new(STANDARD_INPUT));
                Given { name: STANDARD_INPUT.into(), place: PathBuf::new(), read }
            }
            Source::Row { name, fields } => {
                let read = self.row(&fields).map_err(|reason| Error::format(&name, reason));
                let read = read.map(|sample| GivenPicture { sample, size: [0, 0] });
                Given { name, place: PathBuf::new(), read }
            }
            Source::Failed { name, error } => Given { name, place: PathBuf::new(), read: Err(error) },
        }
    }

    fn row(&self, fields: &StringRecord) -> Result<Sample, String> {
        let number = |(column, text): (usize, &str)| match text.parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(format!("column {} is `{text}` instead of a number", column + 1)),
        };
        let wanted = self.predictor.input().shape.iter().product::<usize>();
        if fields.len() != wanted {
            let (has, wanted) = (counted(fields.len(), "column"), counted(wanted, "feature"));
            return Err(format!(
                "it has {has}, but the model is given {wanted}: a table of these alone, without the class"
            ));
        }
        let features = fields.iter().enumerate().map(number).collect::<Result<Vec<_>, _>>()?;
        self.predictor.row(&features).ok_or_else(|| "the run does not say how its columns were scaled".into())
    }

    /// Whether the model is given rows of tables.
    fn is_of_rows(&self) -> bool {
        self.predictor.input().shape.len() == 1
    }

    fn each(&self, path: &Path, take: Take<'_>) -> bool {
        if path.as_os_str() == "-" {
            let input = BufReader::new(std::io::stdin());
            return if self.is_of_rows() { rows(STANDARD_INPUT, input, take) } else { pictures(input, take) };
        }
        if self.is_of_rows() && !path.is_dir() {
            return match std::fs::File::open(path) {
                Ok(file) => rows(&path.display().to_string(), BufReader::new(file), take),
                Err(error) => take(failed(path, Error::io(path, error))),
            };
        }
        if path.is_dir() {
            let mut found = false;
            let wanted = below(path, Path::new(""), 0, &mut |source| {
                found = true;
                take(source)
            });
            let nothing = || Error::format(path, "there are no pictures (JPEG, PNG, BMP, WebP, GIF) in it");
            return wanted && (found || take(failed(path, nothing())));
        }
        take(file(path.to_owned()))
    }
}

fn failed(path: &Path, error: Error) -> Source {
    Source::Failed { name: path.display().to_string(), error }
}

fn file(path: PathBuf) -> Source {
    let place = path.file_name().unwrap_or_default().into();
    Source::File { path, place }
}

/// The pictures in a folder and in those below it, by name; hidden ones are left out.
fn below(root: &Path, relative: &Path, depth: usize, take: Take<'_>) -> bool {
    let folder = root.join(relative);
    if depth > MAX_DEPTH {
        let reason = format!("it lies more than {MAX_DEPTH} folders deep: does a link lead back up?");
        return take(failed(&folder, Error::format(&folder, reason)));
    }
    let names = std::fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>());
    let mut names = match names {
        Ok(names) => names,
        Err(error) => return take(failed(&folder, Error::io(&folder, error))),
    };
    names.sort_unstable();
    names.into_iter().filter(|name| !name.to_string_lossy().starts_with('.')).all(|name| {
        let place = relative.join(&name);
        let path = root.join(&place);
        if path.is_dir() {
            below(root, &place, depth + 1, take)
        } else {
            !is_picture_name(&name.to_string_lossy()) || take(Source::File { path, place })
        }
    })
}

/// Rows of numbers; a first one without any number has the columns' names.
fn rows(name: &str, text: impl Read, take: Take<'_>) -> bool {
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(text);
    let mut first = true;
    loop {
        let mut fields = StringRecord::new();
        match reader.read_record(&mut fields) {
            Ok(false) => return true,
            Ok(true) => {}
            Err(error) => {
                let reason = error.to_string().trim_start_matches("CSV error: ").to_owned();
                return take(Source::Failed { name: name.to_owned(), error: Error::format(name, reason) });
            }
        }
        let has_names = std::mem::take(&mut first) && !fields.iter().any(|text| text.parse::<f32>().is_ok());
        let name = format!("{name}:{}", fields.position().map_or(0, csv::Position::line));
        if !has_names && !take(Source::Row { name, fields }) {
            return false;
        }
    }
}

/// A picture, or the name of one in each line.
fn pictures(mut input: impl BufRead, take: Take<'_>) -> bool {
    let broken = |error| Source::Failed { name: STANDARD_INPUT.into(), error: Error::io(STANDARD_INPUT, error) };
    match input.fill_buf() {
        Err(error) => return take(broken(error)),
        // names have no zeros, and all pictures do, near their beginning
        Ok(start) if start.iter().take(64).any(|&byte| byte == 0) => {
            let mut bytes = Vec::new();
            let source = match input.take(MAX_PICTURE_BYTES).read_to_end(&mut bytes) {
                Ok(_) => Source::Bytes(bytes),
                Err(error) => broken(error),
            };
            return take(source);
        }
        Ok(_) => {}
    }
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(MAX_NAME).read_until(b'\n', &mut line) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return take(broken(error)),
        }
        let name = String::from_utf8_lossy(&line);
        let name = name.trim_end_matches(['\n', '\r']);
        if !name.is_empty() && !take(file(name.into())) {
            return false;
        }
    }
}
