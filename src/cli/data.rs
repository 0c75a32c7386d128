//! `brasa data`: which data sets there are, where they are, and fetching them.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::data::{DatasetName, FORMS, OpenOptions, PUBLISHED, Published, fetch, missing};
use crate::error::Result;
use crate::units::bytes;

use super::layout::{hang, width};

/// Flags of `brasa data`.
#[derive(clap::Args)]
pub(super) struct DataArgs {
    /// The data set to speak of; all of them without one
    name: Option<DatasetName>,
    /// Fetch its files, unless they are there
    #[arg(long, requires = "name")]
    download: bool,
    /// Folder that published data sets are kept in [default: the system's folder for what can be fetched again]
    #[arg(long, value_name = "FOLDER", env = "BRASA_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Write one JSON object per data set, line by line
    #[arg(long)]
    json: bool,
}

/// What is told of a published data set.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    about: &'a str,
    bytes: u64,
    licence: &'a str,
    home: &'a str,
    folder: PathBuf,
    /// Addresses of files that are not in the folder.
    missing: Vec<String>,
}

impl<'a> Row<'a> {
    fn new(set: &'a Published, options: &OpenOptions) -> Result<Self> {
        let folder = options.folder_of(set)?;
        let missing = missing(set, &folder).into_iter().map(|file| set.url(file)).collect();
        let &Published { name, about, licence, home, .. } = set;
        Ok(Self { name, about, bytes: set.bytes(), licence, home, folder, missing })
    }
}

/// What is said of a data set that nobody publishes.
const UNFETCHED: &str = "not fetched: its files are the program's or your own";

/// What a set is that is not fetched.
fn about(name: &DatasetName) -> &'static str {
    let name = name.to_string();
    let kind = |text: &str| text.split(':').next().map(str::to_owned);
    FORMS.iter().find(|(form, _)| kind(form) == kind(&name)).map_or(UNFETCHED, |(_, about)| about)
}

/// The same as JSON: with the keys of a [`Row`], of which most say nothing.
fn unfetched(name: &DatasetName) -> String {
    serde_json::json!({
        "name": name.to_string(),
        "about": about(name),
        "bytes": null,
        "licence": null,
        "home": null,
        "folder": null,
        "missing": [],
    })
    .to_string()
}

/// Lists the data sets, or fetches one and says where it is.
pub(super) fn run(args: &DataArgs) -> Result<ExitCode> {
    let options = OpenOptions { data_dir: args.data_dir.clone(), download: args.download, ..OpenOptions::default() };
    if let Some(name) = args.name.as_ref().filter(|_| args.download) {
        fetch_with_bar(name, &options)?;
    }
    let mut text = String::new();
    let mut tell = |set| -> Result<()> {
        let row = Row::new(set, &options)?;
        match args.json {
            true => text += &(serde_json::to_string(&row).expect("plain data") + "\n"),
            false => describe(&mut text, &row),
        }
        Ok(())
    };
    match &args.name {
        Some(DatasetName::Published(set)) => tell(set)?,
        Some(name) if args.json => text += &(unfetched(name) + "\n"),
        Some(name) => text += &format!("{name}  {}\n  {UNFETCHED}\n", about(name)),
        None => {
            PUBLISHED.iter().try_for_each(&mut tell)?;
            if !args.json {
                text += "\nwithout fetching\n";
                for (form, about) in FORMS {
                    text += &hang(&format!("  {form:<20} {about}"), 23, width());
                }
            }
        }
    }
    super::print_result(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(text: &mut String, row: &Row<'_>) {
    let separator = if text.is_empty() { "" } else { "\n" };
    *text += separator;
    *text += &hang(&format!("{}  {}", row.name, row.about), 11, width());
    let mut line = |name: &str, value: &str| *text += &hang(&format!("  {name:<8} {value}"), 11, width());
    line("size", &bytes(row.bytes));
    line("licence", row.licence);
    line("home", row.home);
    line("folder", &row.folder.display().to_string());
    match row.missing.is_empty() {
        true => line("files", "there"),
        false => line("missing", &row.missing.join("\n")),
    }
}

/// Fetches a data set's missing files, with a bar on a terminal, and says where they went and under which licence they
/// are.
pub(super) fn fetch_with_bar(name: &DatasetName, options: &OpenOptions) -> Result<()> {
    let DatasetName::Published(set) = name else { return Ok(()) };
    let style =
        ProgressStyle::with_template("{msg}  {bar:20.cyan/blue} {percent:>3} %  {binary_bytes_per_sec}, {eta} left")
            .expect("a fixed, well-formed template")
            .progress_chars("━╸─");
    let bar = ProgressBar::new(set.bytes()).with_style(style);
    let mut fetched = false;
    let folder = fetch(name, options, &mut |progress| {
        fetched = true;
        if bar.message() != progress.file {
            bar.reset();
            bar.set_message(progress.file.to_owned());
            bar.set_length(progress.total);
        }
        bar.set_position(progress.done);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    if let Some(folder) = folder?.filter(|_| fetched) {
        super::say(&format!("{} is in {}; licence: {}; see {}", set.name, folder.display(), set.licence, set.home));
    }
    Ok(())
}
