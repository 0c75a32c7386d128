//! What is wrong with a configuration file, in words that say what to do.

/// Names that are more alike than this are taken for each other, as for flags.
const ALIKE: f64 = 0.7;

/// What serde calls a setting's type, and what its user knows it by.
const TYPES: [(&str, &str); 6] = [
    ("usize", "a whole number"),
    ("u64", "a whole number"),
    ("u32", "a whole number"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("a boolean", "true or false"),
];

/// The place in the file, and what is wrong there.
pub(super) fn in_words(error: &toml::de::Error) -> String {
    let message = error.message();
    let better = unknown(message).or_else(|| mistyped(message));
    let place = error.to_string();
    better.map_or_else(|| place.clone(), |better| place.replace(message, &better)).trim_end().to_owned()
}

/// ``unknown field `name`, expected one of `first`, `second` `` with the name that was meant, if one is alike.
fn unknown(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let name = names.next()?;
    let alike = names.map(|known| (strsim::jaro(name, known), known)).filter(|(alike, _)| *alike > ALIKE);
    let meant = alike.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known);
    Some(match meant {
        Some(known) => format!("there is no setting `{name}`: did you mean `{known}`?"),
        None => format!("there is no setting `{name}`; `brasa train --help` lists them"),
    })
}

/// `invalid type: string "many", expected usize` in the user's words.
fn mistyped(message: &str) -> Option<String> {
    let (found, kind) = message.strip_prefix("invalid type: ")?.rsplit_once(", expected ")?;
    let (_, words) = TYPES.into_iter().find(|(name, _)| *name == kind)?;
    Some(format!("{found} is not {words}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::train::Config;

    #[test]
    fn mistakes_say_what_was_meant() {
        for (text, expected) in [
            ("epochs = 3\nmodle = \"mlp\"", "line 2, column 1"),
            ("modle = \"mlp\"", "there is no setting `modle`: did you mean `model`?"),
            ("batch_size = 3", "did you mean `batch-size`?"),
            ("zzz = 3", "there is no setting `zzz`; `brasa train --help` lists them"),
            ("epochs = \"many\"", "string \"many\" is not a whole number"),
            ("lr = \"fast\"", "string \"fast\" is not a number"),
            ("download = 1", "is not true or false"),
        ] {
            let said = Config::parse(Path::new("run.toml"), text).expect_err("a mistake").to_string();
            assert!(said.contains(expected) && said.starts_with("run.toml: "), "{said}");
        }
    }
}
