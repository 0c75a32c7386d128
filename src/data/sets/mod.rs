//! The data sets: bundled, published by others, drawn, and the user's own.
//!
//! **Invariant:** which samples are in which part, their numbers and those of their classes depend on the files alone.

mod catalogue;
mod cifar;
mod columns;
mod digits;
mod fetch;
mod folder;
mod idx;
mod masked;
mod name;
mod pairs;
mod pets;
mod place;
mod shapes;
mod sizes;
mod table;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};

use super::{Dataset, Split};

pub use catalogue::{PUBLISHED, Published, PublishedFile};
pub use cifar::{Cifar, parse_cifar};
pub use columns::Columns;
#[cfg(feature = "cli")]
pub(crate) use columns::{find, has_names, separator};
pub use digits::{DIGITS_TEST_PERCENT, digits, parse_digits};
pub use fetch::{Progress, fetch};
pub use folder::{ClassFolders, open_folder};
pub use idx::parse_idx;
pub use masked::Masked;
pub(crate) use name::absolute;
pub use name::{DatasetName, TableTarget};
pub use pairs::open_pairs;
pub use place::OpenOptions;
pub use shapes::{Shapes, ShapesOptions};
pub(crate) use table::UNNAMED;
#[cfg(feature = "cli")]
pub(crate) use table::feature;
pub use table::{Table, open_csv, parse_csv};

#[cfg(feature = "cli")]
pub(crate) use name::FORMS;
#[cfg(feature = "ui")]
pub(crate) use name::known_forms;
#[cfg(feature = "cli")]
pub(crate) use place::missing;

/// Part of each class that is held out where a data set has no test part of its own, in percent.
const HELD_OUT_PERCENT: usize = 20;
/// Chooses what is held out. Fixed: results of all runs are about the same test set, whatever their `--seed`.
const HELD_OUT_KEY: u64 = 1998;

/// Opens a data set: its parts, described and ready to be read.
///
/// ```
/// use brasa::data::{Dataset, OpenOptions, open};
///
/// let data = open(&"shapes:n=10,size=32".parse()?, &OpenOptions::default())?;
/// assert_eq!((data.train.len(), data.train.description().shape.as_slice()), (10, &[3, 32, 32][..]));
/// # Ok::<(), brasa::Error>(())
/// ```
///
/// # Errors
/// If files are missing, unreadable or malformed; the message names the file and what to do. What is wrong with a
/// single picture is told when it is read.
pub fn open(name: &DatasetName, options: &OpenOptions) -> Result<Split<Arc<dyn Dataset>>> {
    if options.download {
        fetch(name, options, &mut |_| ControlFlow::Continue(()))?;
    }
    name.paths().into_iter().try_for_each(is_there)?;
    Ok(match name {
        DatasetName::Digits => shared(digits()?),
        DatasetName::Published(set) => {
            let folder = options.folder_of(set)?;
            place::find_files(set, &folder, options)?;
            match set.name {
                "cifar10" => shared(cifar::open(Cifar::Ten, &folder)?),
                "cifar100" => shared(cifar::open(Cifar::Hundred, &folder)?),
                "oxford-pets" => shared(pets::open(&folder)?),
                _ => shared(idx::open(set, &folder)?),
            }
        }
        DatasetName::Folder(path) => shared(open_folder(path, options)?),
        DatasetName::Pairs { images, masks } => shared(open_pairs(images, masks, options)?),
        DatasetName::Shapes(options) => shared(Shapes::split(*options)),
        DatasetName::Csv { file, target } => shared(open_csv(file, target, options.columns.as_ref())?),
        DatasetName::Program(name) => {
            let message = format!(
                "the data `{name}` were made by a program, and cannot be opened by name: go on in that program, by \
                 Trainer::resume_with_data, or name other data with --dataset"
            );
            return Err(Error::Config(message));
        }
    })
}

/// That there is something at `path`, which somebody named.
fn is_there(path: &Path) -> Result<()> {
    match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "there is nothing of that name; data that were moved are named with --dataset, for a run that \
                        goes on or is judged, too";
            Err(Error::io(path, std::io::Error::new(error.kind(), what)))
        }
        _ => Ok(()), // another reason is told by what reads it
    }
}

fn shared<D: Dataset + 'static>(split: Split<D>) -> Split<Arc<dyn Dataset>> {
    split.map(|part| Arc::new(part) as Arc<dyn Dataset>)
}
