//! How weights fail to fit a model.

use std::fmt;
use std::path::PathBuf;

use crate::shape::Shape;

/// How named weights differ from a model's variables: everything at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StateMismatch {
    /// The file they come from.
    pub path: Option<PathBuf>,
    /// Variables without a value.
    pub missing: Vec<String>,
    /// Names without a variable.
    pub unexpected: Vec<String>,
    /// (name, its shape, the variable's shape) where these differ.
    pub misshaped: Vec<(String, Shape, Shape)>,
}

impl std::error::Error for StateMismatch {}

impl fmt::Display for StateMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        f.write_str("the weights are of another model")?;
        let shapes = |(name, got, wanted): &(String, Shape, Shape)| format!("{name} {got} instead of {wanted}");
        let parts = [
            ("missing", self.missing.clone()),
            ("unexpected", self.unexpected.clone()),
            ("of another shape", self.misshaped.iter().map(shapes).collect()),
        ];
        for (what, names) in parts {
            list(f, what, &names)?;
        }
        Ok(())
    }
}

/// `; 12 missing: a, b, c and 9 more`; a wholly different model would list hundreds.
fn list(f: &mut fmt::Formatter<'_>, what: &str, names: &[String]) -> fmt::Result {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return Ok(());
    }
    write!(f, "; {} {what}: {}", names.len(), names[..names.len().min(SHOWN)].join(", "))?;
    if names.len() > SHOWN {
        write!(f, " and {} more", names.len() - SHOWN)?;
    }
    Ok(())
}
