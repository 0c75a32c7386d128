//! Data sets as text, in flags and files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

use super::ShapesOptions;
use super::catalogue::{self, Published};

/// Which data set: one by name, or files of one's own.
///
/// Text and back: `digits`, a [published](super::PUBLISHED) set's name, `folder:PATH`, `pairs:IMAGES,MASKS` (the first
/// comma separates, so `IMAGES` has none in it), `shapes` or `shapes:n=4000,size=64,seed=1`, `csv:FILE`,
/// `csv:FILE,label=COLUMN` or `csv:FILE,target=COLUMN`; and `program:NAME`, which settings say of data that cannot be
/// opened by name.
///
/// ```
/// use brasa::data::DatasetName;
///
/// let name: DatasetName = "csv:flowers.csv,label=species".parse()?;
/// assert_eq!(name.to_string(), "csv:flowers.csv,label=species");
/// assert!("minst".parse::<DatasetName>().is_err());
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum DatasetName {
    /// The handwritten digits that ship with the program.
    Digits,
    /// A set that others publish.
    Published(&'static Published),
    /// Pictures in a folder, or a tar archive, for each class.
    Folder(PathBuf),
    /// Pictures in a folder, and masks of the same names in another one.
    Pairs {
        /// Folder of the pictures.
        images: PathBuf,
        /// Folder of the masks.
        masks: PathBuf,
    },
    /// Pictures that the program draws.
    Shapes(ShapesOptions),
    /// Rows of a table.
    Csv {
        /// The file.
        file: PathBuf,
        /// What is to be learned from its rows.
        target: TableTarget,
    },
    /// Data that a program made, and only it can make again, by the name in their description.
    Program(String),
}

/// What is to be learned from the rows of a table. Columns go by name, or by number, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableTarget {
    /// A class: in this column, or in the last one that is no feature.
    Class(Option<String>),
    /// A number, in this column.
    Number(String),
}

impl TableTarget {
    /// The column that was named.
    pub(super) fn column(&self) -> Option<&str> {
        match self {
            Self::Class(column) => column.as_deref(),
            Self::Number(column) => Some(column),
        }
    }
}

/// As in the name of a data set: `,label=COLUMN`, `,target=COLUMN`, or nothing.
impl fmt::Display for TableTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(None) => Ok(()),
            Self::Class(Some(column)) => write!(f, "{LABEL}{column}"),
            Self::Number(column) => write!(f, "{TARGET}{column}"),
        }
    }
}

/// What stands before the column with the classes, or with a number.
const LABEL: &str = ",label=";
const TARGET: &str = ",target=";

/// The same path from the root on, so that it means the same wherever it is read; as it is where that cannot be told or
/// said.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).ok().filter(|path| path.to_str().is_some()).unwrap_or_else(|| path.to_owned())
}

/// What may stand for a data set, with what it is.
pub(crate) const FORMS: [(&str, &str); 5] = [
    ("digits", "1,797 handwritten digits, grey, 8x8 (UCI); ships with the program"),
    ("folder:PATH", "pictures in a folder for each class, or in a tar archive of such folders"),
    ("pairs:IMAGES,MASKS", "pictures, and masks of the same names: PNGs with a class number in each pixel"),
    ("shapes", "shapes and what is around them, drawn by the program; also shapes:n=4000,size=64,seed=1"),
    (
        "csv:FILE",
        "a table of numbers with classes in the last column, or in that of csv:FILE,label=COLUMN; csv:FILE,target=COLUMN \
         has a number to predict there",
    ),
];

impl DatasetName {
    /// The same with paths from the root on: a run that is resumed elsewhere finds its data.
    pub(crate) fn absolute(&self) -> Self {
        match self {
            Self::Folder(path) => Self::Folder(absolute(path)),
            Self::Csv { file, target } => Self::Csv { file: absolute(file), target: target.clone() },
            Self::Pairs { images, masks } => {
                // the text of it has a comma behind the first path, so that there may be none in it
                let absolute_images = absolute(images);
                let is_plain = absolute_images.to_str().is_some_and(|path| !path.contains(','));
                let images = if is_plain { absolute_images } else { images.clone() };
                Self::Pairs { images, masks: absolute(masks) }
            }
            Self::Digits | Self::Published(_) | Self::Shapes(_) | Self::Program(_) => self.clone(),
        }
    }

    /// What it names in the file system.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Folder(path) | Self::Csv { file: path, .. } => vec![path],
            Self::Pairs { images, masks } => vec![images, masks],
            Self::Digits | Self::Published(_) | Self::Shapes(_) | Self::Program(_) => Vec::new(),
        }
    }

    /// A short name that may stand in a file's: without paths and settings.
    pub fn short(&self) -> String {
        let of_path = |kind: &str, path: &Path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let plain: String = stem.chars().filter(|&c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
            if plain.is_empty() { kind.to_owned() } else { format!("{kind}-{plain}") }
        };
        match self {
            Self::Digits => "digits".into(),
            Self::Published(set) => set.name.into(),
            Self::Folder(path) => of_path("folder", path),
            Self::Pairs { images, .. } => of_path("pairs", images),
            Self::Shapes(_) => "shapes".into(),
            Self::Csv { file, .. } => of_path("csv", file),
            Self::Program(name) => of_path("program", Path::new(name)),
        }
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digits => f.write_str("digits"),
            Self::Published(set) => f.write_str(set.name),
            Self::Folder(path) => write!(f, "folder:{}", path.display()),
            Self::Pairs { images, masks } => write!(f, "pairs:{},{}", images.display(), masks.display()),
            Self::Shapes(options) => write!(f, "shapes{options}"),
            Self::Csv { file, target } => write!(f, "csv:{}{target}", file.display()),
            Self::Program(name) => write!(f, "program:{name}"),
        }
    }
}

impl FromStr for DatasetName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let need = |what: &str| match rest {
            Some(rest) if !rest.is_empty() => Ok(rest),
            _ => Err(Error::Config(format!("data set `{text}`: {what} is missing behind `{kind}:`"))),
        };
        Ok(match (kind, rest) {
            ("digits", None) => Self::Digits,
            ("folder", _) => Self::Folder(need("a path")?.into()),
            ("pairs", _) => match need("a folder of pictures and one of masks")?.split_once(',') {
                Some((images, masks)) if !images.is_empty() && !masks.is_empty() => {
                    Self::Pairs { images: images.into(), masks: masks.into() }
                }
                _ => return Err(Error::Config(format!("data set `{text}`: expected pairs:IMAGES,MASKS"))),
            },
            ("shapes", _) => Self::Shapes(rest.unwrap_or_default().parse()?),
            ("csv", _) => {
                let text = need("a file")?;
                let (file, target) = match (text.rsplit_once(LABEL), text.rsplit_once(TARGET)) {
                    (Some((file, column)), None) => (file, TableTarget::Class(Some(column.into()))),
                    (None, Some((file, column))) => (file, TableTarget::Number(column.into())),
                    (None, None) => (text, TableTarget::Class(None)),
                    (Some(_), Some(_)) => {
                        let message =
                            format!("data set `{text}`: give label=COLUMN for classes or target=COLUMN, not both");
                        return Err(Error::Config(message));
                    }
                };
                Self::Csv { file: file.into(), target }
            }
            ("program", Some(name)) => Self::Program(name.into()),
            (name, None) => Self::Published(catalogue::find(name).ok_or_else(|| unknown(text))?),
            _ => return Err(unknown(text)),
        })
    }
}

/// The names of data sets, those that take a path among them.
pub(crate) fn known_forms() -> Vec<&'static str> {
    let mut known: Vec<&str> = FORMS.iter().map(|(form, _)| *form).collect();
    known.splice(1..1, catalogue::PUBLISHED.iter().map(|set| set.name));
    known
}

fn unknown(text: &str) -> Error {
    let path = Path::new(text);
    let form = match () {
        () if path.is_dir() => "folder",
        () if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) => "csv",
        () => return Error::Config(format!("unknown data set `{text}`; known are: {}", known_forms().join(", "))),
    };
    Error::Config(format!("unknown data set `{text}`: did you mean {form}:{text}?"))
}

impl Serialize for DatasetName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DatasetName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatasetName> {
        text.parse()
    }

    #[test]
    fn text_round_trips() {
        let forms = [
            "digits",
            "mnist",
            "fashion-mnist",
            "cifar10",
            "cifar100",
            "oxford-pets",
            "folder:/data/my pictures",
            "pairs:images,masks/of them",
            "shapes",
            "shapes:n=40,size=64,seed=7",
            "csv:a,b.csv",
            "csv:a,b.csv,label=kind of thing",
            "csv:a,b.csv,target=price, in euros",
            "program:rows: of 4, or so",
            "program:",
        ];
        for text in forms {
            let name = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(name.to_string(), text);
            assert!(!name.short().contains(['/', ':', ',', ' ']), "{}", name.short());
        }
        assert_eq!(parse("folder:/data/my pictures").expect("a path").short(), "folder-mypictures");
        assert_eq!(parse("folder:..").expect("a path").short(), "folder");
        assert_eq!(parse("program:folder:/data/cats").expect("a name").short(), "program-cats");
    }

    #[test]
    fn paths_mean_the_same_from_everywhere() {
        let here = std::env::current_dir().expect("a folder");
        for form in ["folder:PLACEa/b", "pairs:PLACEimages,PLACEmasks", "csv:PLACEa.csv,label=x", "digits", "mnist"] {
            let relative = parse(&form.replace("PLACE", "")).expect("a name");
            let absolute = form.replace("PLACE", &format!("{}/", here.display()));
            assert_eq!(relative.absolute().to_string(), absolute);
            assert_eq!(parse(&absolute).expect("a name").absolute().to_string(), absolute);
        }
    }

    #[test]
    fn mistakes_are_told_with_what_is_known() {
        let message = |text| parse(text).expect_err("should be refused").to_string();
        for text in ["", "minst", "digits:8", "mnist:1", "tar:x"] {
            let message = message(text);
            assert!(message.contains(text) && message.contains("cifar100") && message.contains("pairs:"), "{message}");
        }
        assert!(message("folder:").contains("a path is missing"));
        assert!(message("folder").contains("a path is missing"));
        assert!(message("pairs:images").contains("pairs:IMAGES,MASKS"));
        assert!(message("csv:").contains("a file is missing"));
        assert!(message("csv:a.csv,label=x,target=y").contains("not both"));
        assert!(message("shapes:size=0").contains("size"));
        assert!(message("shapes:colour=red").contains("colour"));
    }
}
