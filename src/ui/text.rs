//! What the window says, in the language of its user.

use super::portuguese::PORTUGUESE;
use super::settings::Language;

/// Finds the words of a language. English texts are the keys, so that code reads as what is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Text(pub(super) Language);

impl Text {
    /// This text in the user's language; in English if nobody has translated it.
    pub(super) fn t(self, english: &'static str) -> &'static str {
        match self.0 {
            Language::English => english,
            Language::Portuguese => translated(english).unwrap_or(english),
        }
    }

    /// A text that is not known before the program runs, such as the help of a flag.
    pub(super) fn any(self, english: &str) -> &str {
        match self.0 {
            Language::English => english,
            Language::Portuguese => translated(english).unwrap_or(english),
        }
    }

    /// This text with each `{}` replaced by the next of `values`.
    pub(super) fn f(self, english: &'static str, values: &[&dyn std::fmt::Display]) -> String {
        self.of(english, values)
    }

    /// The same of a text that stands elsewhere.
    pub(super) fn of(self, english: &str, values: &[&dyn std::fmt::Display]) -> String {
        let mut parts = self.any(english).split("{}");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, value) in parts.zip(values) {
            text += &value.to_string();
            text += part;
        }
        text
    }
}

fn translated(english: &str) -> Option<&'static str> {
    let place = PORTUGUESE.binary_search_by(|(key, _)| (*key).cmp(english)).ok()?;
    Some(PORTUGUESE[place].1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::device::DeviceKind;
    use crate::stage::Stage;
    use crate::timing::TimeSource;

    /// The first arguments of `.t(` and `.f(` in the files of this folder.
    fn texts(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                texts(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("readable");
            let source = source.split("#[cfg(test)]").next().unwrap_or_default();
            // literals that go on in the next line
            let joined: Vec<&str> =
                source.split("\\\n").enumerate().map(|(n, part)| [part, part.trim_start()][n.min(1)]).collect();
            let source = joined.concat();
            for opening in [".t(", ".f("] {
                for rest in source.split(opening).skip(1) {
                    let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
                    let end = rest.char_indices().find(|&(at, sign)| sign == '"' && !rest[..at].ends_with('\\'));
                    found.insert(rest[..end.expect("a literal ends").0].replace("\\\"", "\""));
                }
            }
        }
    }

    #[test]
    fn all_texts_are_translated_and_no_translation_is_left_over() {
        let mut found = BTreeSet::new();
        texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui"), &mut found);
        for (title, keys) in crate::train::SECTIONS {
            found.extend(keys.iter().filter_map(|key| super::super::form::help(key)));
            found.insert(title.to_owned());
        }
        found.extend(super::super::form::choices());
        found.extend(Stage::ALL.map(|stage| stage.name().to_owned()));
        found.extend(TimeSource::ALL.map(|source| source.name().to_owned()));
        found.extend(crate::train::Binding::all_texts().map(ToOwned::to_owned));
        found.extend(DeviceKind::ALL.map(|kind| kind.name().to_owned()));
        found.extend(crate::sensors::Utilisation::SOURCES.map(ToOwned::to_owned));
        found.insert("native".to_owned());
        let known: BTreeSet<String> = PORTUGUESE.iter().map(|(english, _)| (*english).to_owned()).collect();
        let missing: Vec<_> = found.difference(&known).collect();
        assert!(missing.is_empty(), "not translated: {missing:#?}");
        let unused: Vec<_> = known.difference(&found).collect();
        assert!(unused.is_empty(), "no longer said: {unused:#?}");
    }

    #[test]
    fn the_table_is_sorted_and_keeps_places() {
        assert!(PORTUGUESE.is_sorted_by(|(a, _), (b, _)| a < b), "binary search needs order");
        for (english, portuguese) in PORTUGUESE {
            assert_eq!(english.matches("{}").count(), portuguese.matches("{}").count(), "{english}");
        }
    }

    #[test]
    fn values_take_their_places() {
        assert_eq!(Text(Language::English).f("{} of {} steps", &[&3, &"40"]), "3 of 40 steps");
        assert_eq!(Text(Language::English).any("not in any table"), "not in any table");
    }
}
