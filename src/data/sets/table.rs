//! Tables of numbers: CSV files with a class, or a number to predict, in each row.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::data::memory::stratified;
use crate::data::{Dataset, Description, Goal, Normalization, Sample, Split, Target, Values};
use crate::error::{Error, Result};
use crate::units;

use super::columns::{Columns, Layout, is_number, separated};
use super::{HELD_OUT_KEY, HELD_OUT_PERCENT, TableTarget};

/// The largest file that is read: a table is held in memory.
const MAX_BYTES: u64 = 1 << 30;
/// More different ones are not classes, but numbers or names of the rows.
const MAX_CLASSES: usize = 1 << 16;

/// What is said of a table without rows.
const NO_ROW: &str = "there is no row below the columns' names";
/// What is said of a column that seems to have no classes.
const ELSEWHERE: &str =
    "name the column of the classes with `,label=COLUMN`, or that of a number to predict with `,target=COLUMN`";
/// What is said of a word among features.
const IN_ANOTHER: &str = "; if that is a class, say that the classes are there: `,label=COLUMN`, by name or number";

/// What a number to predict is called where the columns have no names.
pub(crate) const UNNAMED: &str = "number";

/// Rows of numbers with a class, or a number to predict, each, in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    description: Description,
    values: Vec<f32>,
    targets: Targets,
}

/// Opens `csv:FILE`: a fixed 20 % of each class, or of all rows where a number is to be predicted, is held out, and the
/// features of both parts are standardised, so that each has mean 0 and standard deviation 1 over the training part, or
/// by the `columns` of another table, which are looked for by their names if both tables have some; one that does not
/// vary only loses its mean.
///
/// # Errors
/// As of [`parse_csv`], and if the file is too large, has too few rows for a test part, or lacks one of the `columns`.
pub fn open_csv(file: &Path, target: &TableTarget, columns: Option<&Columns>) -> Result<Split<Table>> {
    let io = |error| Error::io(file, error);
    let reader = File::open(file).map_err(io)?;
    if reader.metadata().map_err(io)?.len() > MAX_BYTES {
        let most = units::bytes(MAX_BYTES);
        return Err(Error::format(file, format!("it is larger than {most}, the most that is held in memory")));
    }
    let names = columns.map_or(&[][..], |columns| &columns.names);
    parse(file, reader.take(MAX_BYTES), target, names)?.split(columns)
}

/// Reads rows of numbers, separated by commas, semicolons or tabs, with a class, or a number to predict, in the column
/// that `target` names. Classes that are all whole numbers are sorted as numbers, others as words. A first row without
/// any number is the columns' names. `path` is for messages.
///
/// # Errors
/// If a row is of another length, a feature or a number to predict is no finite number, a class is empty or a fraction,
/// or each row has a class of its own.
pub fn parse_csv(path: &Path, text: impl Read, target: &TableTarget) -> Result<Table> {
    parse(path, text, target, &[])
}

/// The same, with the features of these names if the table has names.
fn parse(path: &Path, text: impl Read, target: &TableTarget, learned: &[String]) -> Result<Table> {
    let wrong = |reason: String| Error::format(path, reason);
    let (separator, text) = separated(text).map_err(|error| Error::io(path, error))?;
    let mut reader = ReaderBuilder::new().delimiter(separator).has_headers(false).trim(Trim::All).from_reader(text);
    let mut record = StringRecord::new();
    let mut next = |record: &mut StringRecord| {
        reader
            .read_record(record)
            .map_err(|error| wrong(error.to_string().trim_start_matches("CSV error: ").to_owned()))
    };
    if !next(&mut record)? {
        return Err(wrong("it is empty: expected a row of numbers for each sample".into()));
    }
    let layout = Layout::new(&record, target, learned).map_err(wrong)?;
    let (mut values, mut met) = (Vec::new(), Met::new(target));
    let name = layout.has_names.then(|| record[layout.target].to_owned());
    let mut more = if layout.has_names { next(&mut record)? } else { true };
    while more {
        let line = record.position().map_or(0, csv::Position::line);
        let wrong = |reason: String| wrong(format!("line {line}: {reason}"));
        met.add(layout.target, &record[layout.target]).map_err(wrong)?;
        for &column in &layout.features {
            let text = &record[column];
            values.push(feature(column, text).map_err(|reason| {
                let is_word = target.column().is_none() && !is_number(text) && text.contains(char::is_alphabetic);
                wrong(if is_word { reason + IN_ANOTHER } else { reason })
            })?);
        }
        more = next(&mut record)?;
    }
    let (goal, classes, targets) = met.targets(name).map_err(wrong)?;
    let (name, shape) = (format!("csv:{}", path.display()), [layout.features.len()]);
    let description = Description { columns: layout.names, ..Description::new(name, goal, classes, shape) };
    Ok(Table { description, values, targets })
}

/// What rows have to say, in their order.
#[derive(Clone, PartialEq, Debug)]
enum Targets {
    Classes(Vec<u32>),
    Numbers(Vec<f32>),
}

/// The targets of the rows that were read.
enum Met {
    /// Classes, with the numbers that they have in the order in which they were met, and those of the rows.
    Classes(HashMap<String, u32>, Vec<u32>),
    Numbers(Vec<f32>),
}

impl Met {
    fn new(target: &TableTarget) -> Self {
        match target {
            TableTarget::Class(_) => Self::Classes(HashMap::new(), Vec::new()),
            TableTarget::Number(_) => Self::Numbers(Vec::new()),
        }
    }

    /// Adds what a row has in this column, counted from 0.
    fn add(&mut self, column: usize, text: &str) -> Result<(), String> {
        let (met, rows) = match self {
            Self::Numbers(rows) => {
                rows.push(feature(column, text)?);
                return Ok(());
            }
            Self::Classes(met, rows) => (met, rows),
        };
        check_class(column, text)?;
        let number = match met.get(text) {
            Some(&number) => number,
            None if met.len() == MAX_CLASSES => {
                return Err(format!("there are more than {MAX_CLASSES} classes: {ELSEWHERE}"));
            }
            None => {
                let number = met.len() as u32;
                met.insert(text.to_owned(), number);
                number
            }
        };
        rows.push(number);
        Ok(())
    }

    /// All of them, with the names of the classes, or `name`, that of the numbers.
    fn targets(self, name: Option<String>) -> Result<(Goal, Vec<String>, Targets), String> {
        let (met, rows) = match self {
            Self::Numbers(rows) if rows.is_empty() => return Err(NO_ROW.into()),
            Self::Numbers(rows) => {
                return Ok((Goal::Regress, vec![name.unwrap_or_else(|| UNNAMED.into())], Targets::Numbers(rows)));
            }
            Self::Classes(met, rows) => (met, rows),
        };
        let (classes, numbers) = sort_classes(met.into_iter().collect(), rows.len())?;
        let rows = rows.into_iter().map(|met| numbers[met as usize]).collect();
        Ok((Goal::Classify, classes, Targets::Classes(rows)))
    }
}

/// What is wrong with a class in this column, counted from 0.
fn check_class(column: usize, class: &str) -> Result<(), String> {
    if class.is_empty() {
        return Err(format!("the class, column {}, is empty", column + 1));
    }
    if class.contains(['\n', '\r']) {
        return Err("the class has a line break in it: is a quote not closed?".into());
    }
    Ok(())
}

/// The number in a column, counted from 0. The error says what is wrong with it, not in which line.
pub(crate) fn feature(column: usize, text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ if text.contains(',') && text.replace(',', ".").parse::<f32>().is_ok() => {
            Err(format!("column {} is `{text}` instead of a number, which has a point before its decimals", column + 1))
        }
        _ => Err(format!("column {} is `{text}` instead of a number", column + 1)),
    }
}

/// The classes of so many rows in order, and for each number in `met` its place there.
fn sort_classes(mut met: Vec<(String, u32)>, rows: usize) -> Result<(Vec<String>, Vec<u32>), String> {
    match &met[..] {
        [] => return Err(NO_ROW.into()),
        [(class, _)] => return Err(format!("all rows are of class `{class}`: there is nothing to tell apart")),
        met if met.len() == rows => {
            return Err(format!("each row has a class of its own: {ELSEWHERE}"));
        }
        _ => {}
    }
    let whole = |class: &str| class.parse::<i64>().ok();
    let is_fraction = |class: &str| class.parse::<f64>().is_ok_and(|value| value.fract() != 0.0);
    if met.iter().all(|(class, _)| whole(class).is_some()) {
        met.sort_by_cached_key(|(class, _)| (whole(class), class.clone()));
    } else if let Some((class, _)) = met.iter().filter(|(class, _)| is_fraction(class)).min_by_key(|(_, number)| number)
    {
        return Err(format!("`{class}` is not a class: expected whole numbers or words; {ELSEWHERE}"));
    } else {
        met.sort_unstable();
    }
    let mut numbers = vec![0; met.len()];
    met.iter().zip(0..).for_each(|((_, number), place)| numbers[*number as usize] = place);
    Ok((met.into_iter().map(|(class, _)| class).collect(), numbers))
}

impl Table {
    /// The classes of all rows; none where a number is to be predicted.
    pub fn labels(&self) -> &[u32] {
        match &self.targets {
            Targets::Classes(classes) => classes,
            Targets::Numbers(_) => &[],
        }
    }

    /// The numbers that are to be predicted, of all rows; none where classes are.
    pub fn numbers(&self) -> &[f32] {
        match &self.targets {
            Targets::Classes(_) => &[],
            Targets::Numbers(numbers) => numbers,
        }
    }

    fn width(&self) -> usize {
        self.description.shape[0]
    }

    /// Both parts, standardised.
    fn split(&self, columns: Option<&Columns>) -> Result<Split<Self>> {
        if let Some(columns) = columns
            && columns.scales.mean.len() != self.width()
        {
            let (name, own, other) = (&self.description.name, self.width(), columns.scales.mean.len());
            let message = format!("features in a row: {own}, but the model has learned from {other}");
            return Err(Error::format(name.trim_start_matches("csv:"), message));
        }
        let parts = match &self.targets {
            Targets::Classes(classes) => {
                stratified(classes, self.description.classes.len(), HELD_OUT_PERCENT, HELD_OUT_KEY)
            }
            // all of one kind
            Targets::Numbers(numbers) => stratified(&vec![0; numbers.len()], 1, HELD_OUT_PERCENT, HELD_OUT_KEY),
        };
        if parts.test.is_empty() {
            let name = self.description.name.trim_start_matches("csv:");
            return Err(Error::format(name, "there are too few rows to hold any out: at least 3 (of a class)"));
        }
        let parts = parts.map(|part| self.select(&part));
        let scales =
            columns.map_or_else(|| scales(&parts.train.values, self.width()), |columns| columns.scales.clone());
        let of_targets = match &parts.train.targets {
            Targets::Classes(_) => None,
            Targets::Numbers(numbers) => Some(self::scales(numbers, 1)),
        };
        Ok(parts.map(|mut part| {
            scales.standardise(&mut part.values);
            part.description.normalization = scales.clone();
            part.description.scales.clone_from(&of_targets);
            part
        }))
    }

    fn select(&self, indices: &[usize]) -> Self {
        let width = self.width();
        let values = indices.iter().flat_map(|&row| &self.values[row * width..(row + 1) * width]).copied().collect();
        let targets = match &self.targets {
            Targets::Classes(classes) => Targets::Classes(indices.iter().map(|&row| classes[row]).collect()),
            Targets::Numbers(numbers) => Targets::Numbers(indices.iter().map(|&row| numbers[row]).collect()),
        };
        Self { description: self.description.clone(), values, targets }
    }
}

/// Mean and standard deviation of each column of a table of this width; 1 where it does not vary.
fn scales(values: &[f32], width: usize) -> Normalization {
    let rows = (values.len() / width) as f64;
    let column = |place| values.iter().skip(place).step_by(width).map(|&value| f64::from(value));
    let scales = (0..width).map(|place| {
        let mean = column(place).sum::<f64>() / rows;
        let variance = column(place).map(|value| (value - mean).powi(2)).sum::<f64>() / rows;
        let std = variance.sqrt() as f32;
        (mean as f32, if std > 0.0 { std } else { 1.0 })
    });
    let (mean, std) = scales.unzip();
    Normalization { mean, std }
}

impl Dataset for Table {
    fn description(&self) -> &Description {
        &self.description
    }

    /// Beside the file, which column is asked for, and what of the others is a feature.
    fn identity(&self) -> String {
        let Description { name, classes, columns, .. } = &self.description;
        let asked = match &self.targets {
            Targets::Classes(_) => "classes",
            Targets::Numbers(_) => "numbers",
        };
        format!("{name} ({asked} {}; {})", classes.join(", "), columns.join(", "))
    }

    fn len(&self) -> usize {
        match &self.targets {
            Targets::Classes(classes) => classes.len(),
            Targets::Numbers(numbers) => numbers.len(),
        }
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let width = self.width();
        let row = &self.values[index * width..(index + 1) * width];
        sample.shape.clear();
        sample.shape.push(width);
        match &mut sample.input {
            Values::F32(values) => {
                values.clear();
                values.extend_from_slice(row);
            }
            other => *other = Values::F32(row.to_vec()),
        }
        match &self.targets {
            Targets::Classes(classes) => sample.target = Target::Class(classes[index]),
            Targets::Numbers(numbers) => sample.set_numbers(&numbers[index..=index]),
        }
        Ok(())
    }
}
