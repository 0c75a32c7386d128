//! Weights that a run begins with: what fits of a file, and what is said of the rest.

use std::path::Path;

use crate::error::{Error, Result};
use crate::nn::{self, LoadOptions, LoadReport, Module, matches};
use crate::runtime::Var;
use crate::shape::Shape;
use crate::train::checkpoint;
use crate::units::some;

/// What a file gave to a model.
pub(crate) struct Loaded {
    report: LoadReport,
    /// What all its names begin with, and the model's do not.
    prefix: Option<String>,
    /// Names of what has other shapes: the file's and the model's.
    misshaped: Vec<(String, Shape, Shape)>,
}

impl Loaded {
    /// Loads what fits of a file of weights, but for names that match `skipped`: a head for other classes keeps its
    /// first values. Names may have something in front of them that wrappers add, as `DataParallel` does `module.`.
    pub(super) fn new(model: &dyn Module, path: &Path, skipped: &[String]) -> Result<Self> {
        let variables = model.variables();
        if let Some(pattern) = skipped.iter().find(|pattern| !variables.iter().any(|var| matches(pattern, var.name())))
        {
            let names = some(&variables.iter().map(Var::name).collect::<Vec<_>>());
            let message = format!("skip-weights: no variable of the model is called `{pattern}`; it has {names}");
            return Err(Error::Config(message));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let of_checkpoint = checkpoint::prefix_of_weights(&bytes);
        let file = File { model, path, bytes: &bytes, skipped };
        let loaded = file.load(checkpoint::load_options(of_checkpoint), of_checkpoint.unwrap_or_default())?;
        if loaded.report.loaded > 0 || of_checkpoint.is_some() {
            return Ok(loaded);
        }
        let Some(prefix) = prefix_in(&loaded.report) else { return Ok(loaded) };
        let renamed = file.load(LoadOptions::default().rename(&prefix, ""), &prefix)?;
        Ok(Self { prefix: Some(prefix), ..renamed })
    }

    /// What of the file at `path` is in the model, in words; an error if that is nothing.
    pub(crate) fn describe(&self, path: &Path) -> Result<String> {
        let Self { report: LoadReport { loaded, missing, unexpected }, prefix, misshaped } = self;
        if *loaded == 0 {
            let found = match unexpected.is_empty() {
                true => "what it has is left out, or of other shapes".into(),
                false => format!("it has {}", some(unexpected)),
            };
            let reason = format!("nothing in it fits the model: {found}, and the model has {}", some(missing));
            return Err(Error::format(path, format!("{reason}; name weights of this network, or train without any")));
        }
        let mut message = format!("{loaded} variables loaded from {}", path.display());
        if let Some(prefix) = prefix {
            message += &format!(", whose names begin with `{prefix}`");
        }
        if !missing.is_empty() {
            message += &format!("; {} keep their first values: {}", missing.len(), some(missing));
        }
        if let Some((name, there, here)) = misshaped.first() {
            message += &format!(" (`{name}` is {there} there, and {here} here)");
        }
        if !unexpected.is_empty() {
            message += &format!("; {} in the file stand for nothing here: {}", unexpected.len(), some(unexpected));
        }
        Ok(message)
    }
}

/// A file, and what of it is wanted.
struct File<'a> {
    model: &'a dyn Module,
    path: &'a Path,
    bytes: &'a [u8],
    skipped: &'a [String],
}

impl File<'_> {
    /// Loads what fits with these options, by which names lose a prefix.
    fn load(&self, options: LoadOptions, prefix: &str) -> Result<Loaded> {
        let skip = |options: LoadOptions, pattern: &String| options.skip(&format!("{prefix}{pattern}"));
        let load = |options: &LoadOptions| nn::weights_from_bytes(self.model, self.path, self.bytes, options);
        let asked = self.skipped.iter().fold(options.partial(), skip);
        let (report, misshaped) = match load(&asked) {
            Ok(report) => (report, Vec::new()),
            Err(Error::State(mismatch)) => {
                // what has another shape, and what belongs to it
                let options = mismatch.misshaped.iter().map(|(name, ..)| name).fold(asked, skip);
                (load(&options)?, mismatch.misshaped)
            }
            Err(error) => return Err(error),
        };
        Ok(Loaded { report, prefix: None, misshaped })
    }
}

/// What the names in a file have in front of the model's, if at least half of the model is there so.
fn prefix_in(report: &LoadReport) -> Option<String> {
    let LoadReport { missing, unexpected, .. } = report;
    let prefix = unexpected.iter().find_map(|name| {
        let prefixes = missing.iter().filter_map(|own| name.strip_suffix(own.as_str()));
        prefixes.filter(|prefix| prefix.ends_with('.')).min_by_key(|prefix| prefix.len())
    })?;
    let is_there = |own: &&String| unexpected.contains(&format!("{prefix}{own}"));
    (2 * missing.iter().filter(is_there).count() >= missing.len()).then(|| prefix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_one_of_most_names() {
        let report = |missing: &[&str], unexpected: &[&str]| {
            let [missing, unexpected] =
                [missing, unexpected].map(|names| names.iter().map(ToString::to_string).collect());
            prefix_in(&LoadReport { loaded: 0, missing, unexpected })
        };
        let own = ["conv.weight", "fc.weight", "fc.bias"];
        let wrapped = ["module.conv.weight", "module.fc.bias", "module.fc.weight", "step"];
        assert_eq!(report(&own, &wrapped).as_deref(), Some("module."));
        assert_eq!(report(&own, &["a.b.fc.weight", "a.b.fc.bias"]).as_deref(), Some("a.b."));
        assert_eq!(report(&own, &["encoder.fc.bias", "encoder.attention"]), None, "chance");
        assert_eq!(report(&own, &["myfc.weight", "myfc.bias", "myconv.weight"]), None, "other names");
        assert_eq!(report(&own, &[]), None);
    }
}
