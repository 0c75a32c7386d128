//! What is to be answered: files, folders, tables, and what comes over standard input.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use csv::{ByteRecord, ReaderBuilder, StringRecord, Trim};
use rayon::prelude::*;

use crate::data::{MAX_PICTURE_BYTES, Sample, feature, find, has_names, is_picture_name, separator};
use crate::error::{Error, Result};
use crate::train::{GivenPicture, Predictor};
use crate::units::{self, counted};

/// The longest line that is read: a name, or a row.
const MAX_LINE: u64 = 16 << 20;
/// What standard input is called.
const STANDARD_INPUT: &str = "standard input";

/// An input, and how it could be read.
pub(super) struct Given {
    /// What the answer is told for.
    pub(super) name: String,
    /// Where it lies below the folder that was named, or as it was named itself: what its mask is called. Empty of what
    /// is not a file.
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
    /// Of a table, with its place there, and what the table's first line says.
    Row {
        name: String,
        fields: StringRecord,
        header: Option<Arc<Header>>,
    },
    Failed {
        name: String,
        error: Error,
    },
}

/// The names of a table's columns.
struct Header {
    /// How many there are.
    columns: usize,
    /// Where the features are, in the order in which the model is given them.
    features: Vec<usize>,
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

    /// Reads all of them, and hands them over in batches until `send` says that no more are wanted. What cannot be read
    /// is handed over as an error.
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
        sources.into_par_iter().map(|source| self.given(source)).collect()
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
            Source::Row { name, fields, header } => {
                let read = self.row(&fields, header.as_deref()).map_err(|reason| Error::format(&name, reason));
                let read = read.map(|sample| GivenPicture { sample, size: [0, 0] });
                Given { name, place: PathBuf::new(), read }
            }
            Source::Failed { name, error } => Given { name, place: PathBuf::new(), read: Err(error) },
        }
    }

    fn row(&self, fields: &StringRecord, header: Option<&Header>) -> Result<Sample, String> {
        let place = |feature: usize| header.map_or(feature, |header| header.features[feature]);
        match header {
            Some(header) if fields.len() != header.columns => {
                let has = counted(fields.len(), "column");
                return Err(format!("it has {has}, but the table's first line has {}", header.columns));
            }
            Some(_) => {}
            None => self.check_width(fields)?,
        }
        let number = |column: usize| feature(column, &fields[column]);
        let features = (0..self.width()).map(|feature| number(place(feature))).collect::<Result<Vec<_>, _>>()?;
        self.predictor.row(&features).ok_or_else(|| "the run does not say how its columns were scaled".into())
    }

    /// How many features the model is given.
    fn width(&self) -> usize {
        self.predictor.input().shape.iter().product()
    }

    /// An error if these are not as many as the features.
    fn check_width(&self, fields: &StringRecord) -> Result<(), String> {
        if fields.len() == self.width() {
            return Ok(());
        }
        let (has, wanted) = (counted(fields.len(), "column"), counted(self.width(), "feature"));
        let named = if self.predictor.input().columns.is_empty() { "" } else { ", or one whose first line names them" };
        let target = if self.predictor.input().regresses { "number to predict" } else { "class" };
        Err(format!(
            "it has {has}, but the model is given {wanted}: a table of these alone, without the {target}{named}"
        ))
    }

    /// What a table's first line says, `None` if it is a row. The error is about the table as a whole. Lines of
    /// standard input stand by themselves, unless the first has the names of columns that the model knows.
    fn header(&self, first: &StringRecord, is_file: bool) -> Result<Option<Header>, String> {
        let names = &self.predictor.input().columns;
        let has_names = has_names(first, None, names);
        let columns = first.len();
        match find(names, first) {
            Ok(features) if !names.is_empty() => Ok(Some(Header { columns, features })),
            Err(missing) if has_names => Err(missing),
            _ if !is_file => Ok(None),
            _ => {
                self.check_width(first)?;
                Ok(has_names.then(|| Header { columns, features: (0..columns).collect() }))
            }
        }
    }

    /// Whether the model is given rows of tables.
    fn is_of_rows(&self) -> bool {
        self.predictor.input().shape.len() == 1
    }

    fn each(&self, path: &Path, take: Take<'_>) -> bool {
        if path.as_os_str() == "-" {
            let input = BufReader::new(std::io::stdin());
            return if self.is_of_rows() {
                self.rows(STANDARD_INPUT, input, false, take)
            } else {
                pictures(input, take)
            };
        }
        if self.is_of_rows() && !path.is_dir() {
            return match std::fs::File::open(path) {
                Ok(file) => self.rows(&path.display().to_string(), BufReader::new(file), true, take),
                Err(error) => take(failed(path, Error::io(path, error))),
            };
        }
        if path.is_dir() {
            let mut found = false;
            // pictures of one name in several folders have a mask each
            let inside = if self.named.len() > 1 { normal(path) } else { PathBuf::new() };
            let wanted = below(path, Path::new(""), &mut Vec::new(), &mut |source| {
                found = true;
                take(match source {
                    Source::File { path, place } => Source::File { path, place: inside.join(place) },
                    other => other,
                })
            });
            let nothing = || Error::format(path, "there are no pictures (JPEG, PNG, BMP, WebP, GIF) in it");
            return wanted && (found || take(failed(path, nothing())));
        }
        take(file(path.to_owned()))
    }

    /// What the files among the inputs are called below a folder of masks.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for path in self.named.iter().filter(|path| path.as_os_str() != "-") {
            self.each(path, &mut |source| {
                if let Source::File { place, .. } = source {
                    places.push(place);
                }
                true
            });
        }
        places
    }

    /// Rows of numbers, one in each line that is not empty. A first one without any number has the columns' names.
    fn rows(&self, name: &str, mut text: impl BufRead, is_file: bool, take: Take<'_>) -> bool {
        let failed = |place: &str, error: Error| Source::Failed { name: place.to_owned(), error };
        let (mut number, mut records, mut header, mut separated_by) = (0, 0, None, None);
        loop {
            let mut line = Vec::new();
            let read = match text.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(read) => read,
                Err(error) => return take(failed(name, Error::io(name, error))),
            };
            if read == 0 {
                let error = || Error::format(name, "there is no row below the columns' names");
                return header.is_none() || records > 1 || take(failed(name, error()));
            }
            number += 1;
            let place = format!("{name}:{number}");
            if is_cut(&line) {
                // where the next row begins is not known
                let reason = format!("it is longer than {}, the most that is read", units::bytes(MAX_LINE));
                return take(failed(&place, Error::format(&place, reason)));
            }
            separated_by = separated_by.or_else(|| separator(&line));
            let fields = match fields(&line, separated_by.unwrap_or(b',')) {
                Ok(Some(fields)) => fields,
                Ok(None) => continue,
                Err(error) => {
                    records += 1;
                    if !take(failed(&place, Error::format(&place, error.to_string()))) {
                        return false;
                    }
                    continue;
                }
            };
            records += 1;
            if records == 1 {
                // what is wrong with all rows is said once
                match self.header(&fields, is_file) {
                    Ok(None) => {}
                    Ok(Some(names)) => {
                        header = Some(Arc::new(names));
                        continue;
                    }
                    Err(reason) => return take(failed(name, Error::format(name, reason))),
                }
            }
            if !take(Source::Row { name: place, fields, header: header.clone() }) {
                return false;
            }
        }
    }
}

/// The fields of a line by itself, so that a quote that is never closed does not swallow the others; `None` if it is
/// empty.
fn fields(line: &[u8], separator: u8) -> csv::Result<Option<StringRecord>> {
    let mut reader = ReaderBuilder::new().delimiter(separator).has_headers(false).trim(Trim::All).from_reader(line);
    let mut fields = ByteRecord::new();
    let is_there = reader.read_byte_record(&mut fields)?;
    Ok(is_there.then(|| StringRecord::from_byte_record_lossy(fields)))
}

fn failed(path: &Path, error: Error) -> Source {
    Source::Failed { name: path.display().to_string(), error }
}

/// A file that was named by itself.
fn file(path: PathBuf) -> Source {
    let place = if path.is_absolute() {
        path.file_name().unwrap_or_default().into()
    } else {
        // two of one name in different folders have two masks, and none lies outside of the masks' folder
        normal(&path)
    };
    Source::File { path, place }
}

/// The path without what leads up or begins at the root.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// The pictures in a folder and in those below it, by name; hidden ones are left out, and so is what is not a file.
/// `above` are the real paths of the folders that it lies in, to which links may lead back.
fn below(root: &Path, relative: &Path, above: &mut Vec<PathBuf>, take: Take<'_>) -> bool {
    let folder = root.join(relative);
    let read = || {
        let names = std::fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.file_name()));
        Ok((folder.canonicalize()?, names.collect::<Result<Vec<_>, _>>()?))
    };
    let (real, mut names) = match read() {
        Ok(read) => read,
        Err(error) => return take(failed(&folder, Error::io(&folder, error))),
    };
    if above.contains(&real) {
        return true;
    }
    names.sort_unstable();
    above.push(real);
    let wanted = names.into_iter().filter(|name| !name.to_string_lossy().starts_with('.')).all(|name| {
        let place = relative.join(&name);
        let path = root.join(&place);
        if path.is_dir() {
            below(root, &place, above, take)
        } else {
            let is_picture = is_picture_name(&name.to_string_lossy()) && path.is_file();
            !is_picture || take(Source::File { path, place })
        }
    });
    above.pop();
    wanted
}

/// Whether a line goes on behind what was read of it.
fn is_cut(line: &[u8]) -> bool {
    line.len() as u64 == MAX_LINE && line.last() != Some(&b'\n')
}

/// A picture, or the name of one in each line.
fn pictures(mut input: impl BufRead, take: Take<'_>) -> bool {
    let failed = |error| Source::Failed { name: STANDARD_INPUT.into(), error };
    let start = match beginning(&mut input) {
        Ok(start) => start,
        Err(error) => return take(failed(Error::io(STANDARD_INPUT, error))),
    };
    let is_picture = is_no_text(&start);
    let mut input = Cursor::new(start).chain(input);
    if is_picture {
        let mut bytes = Vec::new();
        return take(match input.take(MAX_PICTURE_BYTES).read_to_end(&mut bytes) {
            Ok(_) => Source::Bytes(bytes),
            Err(error) => failed(Error::io(STANDARD_INPUT, error)),
        });
    }
    loop {
        let mut line = Vec::new();
        match input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => return true,
            Ok(_) if line.contains(&0) || is_cut(&line) => {
                let reason = "it is neither a picture (JPEG, PNG, BMP, WebP, GIF) nor a name of one in each line";
                return take(failed(Error::format(STANDARD_INPUT, reason)));
            }
            Ok(_) => {}
            Err(error) => return take(failed(Error::io(STANDARD_INPUT, error))),
        }
        let name = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line);
        let name = name.strip_suffix(b"\n").unwrap_or(name);
        let name = name.strip_suffix(b"\r").unwrap_or(name);
        if !name.is_empty() && !take(file(path_of(name))) {
            return false;
        }
    }
}

/// What an input begins with: as much as tells a picture from a name, which ends with its line.
fn beginning(input: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    while start.len() < 64 && !start.contains(&b'\n') {
        let more = input.fill_buf()?;
        if more.is_empty() {
            break;
        }
        let count = more.len();
        start.extend_from_slice(more);
        input.consume(count);
    }
    Ok(start)
}

/// Whether it begins as pictures do: those of PNG and JPEG with a byte that no text begins with, others soon have a
/// zero.
fn is_no_text(start: &[u8]) -> bool {
    matches!(start.first(), Some(0x89 | 0xff)) || start.iter().take(64).any(|&byte| byte == 0)
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(name).into()
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    String::from_utf8_lossy(name).into_owned().into()
}
