//! The flags of `brasa train` as fields of a form: names, helps and values are those of the command line, and so is
//! what is said about mistakes.

use std::any::TypeId;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches as _};

use crate::error::{Error, Result};
use crate::train::{Config, SECTIONS};

use super::text::Text;

/// One flag.
pub(super) struct Field {
    /// Its name on the command line, without dashes.
    pub(super) key: &'static str,
    pub(super) help: String,
    pub(super) kind: FieldKind,
    /// As it would be given on the command line; empty if it is not.
    pub(super) value: String,
    /// What it is if it is not given.
    pub(super) hint: String,
    /// What numbers it may be, if it is one.
    number: Option<NumberKind>,
    /// What is wrong with the value.
    pub(super) problem: Option<Problem>,
}

/// A number that is given to a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NumberKind {
    Whole,
    Real,
}

/// What is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Problem {
    /// It is not a number of this kind.
    NotA(NumberKind),
    /// What the command line says about it.
    Said(String),
}

impl Problem {
    /// A few words, to stand below the field.
    pub(super) fn text(&self, text: Text) -> String {
        match self {
            Self::NotA(NumberKind::Whole) => text.t("a whole number").to_owned(),
            Self::NotA(NumberKind::Real) => text.t("a number").to_owned(),
            Self::Said(said) => said.clone(),
        }
    }
}

/// How a flag is chosen.
pub(super) enum FieldKind {
    /// Yes or no.
    Switch,
    /// One of a few, each with its own help.
    Choice(Vec<(String, String)>),
    /// Anything else.
    Text,
}

/// All flags.
pub(super) struct Form {
    pub(super) fields: Vec<Field>,
    /// The settings as they are chosen, or what is wrong with them together.
    config: std::result::Result<Config, String>,
}

impl Form {
    /// A form that says what `config` says.
    pub(super) fn new(config: &Config) -> Self {
        let values = toml::Table::try_from(config).unwrap_or_default();
        let command = command();
        let field = |key: &'static str| {
            let argument = argument(&command, key);
            let value = values.get(key).map(shown).unwrap_or_default();
            let default = argument.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
            let (kind, number) = (kind(argument), number_kind(argument));
            let hint = default.unwrap_or_default();
            Field { key, help: help_of(argument), kind, value, hint, number, problem: None }
        };
        let fields = SECTIONS.iter().flat_map(|(_, keys)| keys.iter().copied().map(field)).collect();
        let mut form = Self { fields, config: Err(String::new()) };
        form.check();
        form
    }

    /// The field of this flag.
    pub(super) fn field(&mut self, key: &str) -> &mut Field {
        self.fields.iter_mut().find(|field| field.key == key).expect("a flag of the table")
    }

    /// To be called after a change: finds out what is wrong with each field, and with all of them.
    pub(super) fn check(&mut self) {
        let mut command = command();
        for field in &mut self.fields {
            field.problem = parse(&mut command, &field.arguments()).err().map(|said| field.problem_of(&said));
        }
        let all: Vec<OsString> = self.fields.iter().flat_map(Field::arguments).collect();
        let resolved = parse(&mut command, &all)
            .and_then(|config| Ok((config.clone().resolve().map_err(|error| error.to_string())?, config)));
        self.config = resolved.map(|(resolved, config)| {
            self.hint_at(&resolved);
            config
        });
    }

    /// Says what follows from the other settings where nothing is given, such as an optimizer's learning rate.
    fn hint_at(&mut self, resolved: &Config) {
        let values = toml::Table::try_from(resolved).unwrap_or_default();
        for field in self.fields.iter_mut().filter(|field| field.value.is_empty()) {
            if let Some(value) = values.get(field.key) {
                field.hint = shown(value);
            }
        }
    }

    /// The settings, or what is wrong with them.
    pub(super) fn config(&self) -> std::result::Result<&Config, &str> {
        self.config.as_ref().map_err(String::as_str)
    }
}

impl Field {
    /// What the command line says about the value, without what the field shows anyway.
    fn problem_of(&self, said: &str) -> Problem {
        let value = self.value.trim();
        match self.number {
            // what is too large has more digits than it can have, but is a number
            Some(NumberKind::Whole) if !value.bytes().all(|digit| digit.is_ascii_digit()) => {
                Problem::NotA(NumberKind::Whole)
            }
            Some(NumberKind::Real) if value.parse::<f64>().is_err() => Problem::NotA(NumberKind::Real),
            _ => {
                let said = said.lines().next().unwrap_or_default();
                let reason = said.strip_prefix("invalid value '").and_then(|rest| rest.split_once("': "));
                Problem::Said(reason.map_or(said, |(_, reason)| reason).to_owned())
            }
        }
    }

    /// As on the command line.
    fn arguments(&self) -> Vec<OsString> {
        let value = self.value.trim();
        let flag = |value: &str| OsString::from(format!("--{}={value}", self.key));
        match (self.key, value) {
            (_, "") => Vec::new(),
            ("freeze" | "skip-weights", patterns) => {
                patterns.split([',', ' ']).filter(|one| !one.is_empty()).map(flag).collect()
            }
            _ => vec![flag(value)],
        }
    }
}

/// The help of a flag, as it stands in the form.
#[cfg(test)]
pub(super) fn help(key: &str) -> Option<String> {
    SECTIONS.iter().any(|(_, keys)| keys.contains(&key)).then(|| help_of(argument(&command(), key)))
}

/// The helps of all values that flags let choose from.
#[cfg(test)]
pub(super) fn choices() -> impl Iterator<Item = String> {
    let fields = Form::new(&Config::default()).fields.into_iter();
    let helps = fields.flat_map(|field| match field.kind {
        FieldKind::Choice(choices) => choices,
        FieldKind::Switch | FieldKind::Text => Vec::new(),
    });
    helps.map(|(_, help)| help).filter(|help| !help.is_empty())
}

/// The flags as clap knows them.
fn command() -> Command {
    Config::augment_args(Command::new("brasa").no_binary_name(true).disable_help_flag(true))
}

fn argument<'a>(command: &'a Command, key: &str) -> &'a Arg {
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(key));
    argument.unwrap_or_else(|| panic!("no flag is called {key}"))
}

fn help_of(argument: &Arg) -> String {
    argument.get_help().map(ToString::to_string).unwrap_or_default()
}

fn kind(argument: &Arg) -> FieldKind {
    let possible = argument.get_possible_values();
    let is_switch = matches!(argument.get_action(), ArgAction::SetTrue)
        || (!possible.is_empty() && possible.iter().all(|value| matches!(value.get_name(), "true" | "false")));
    if is_switch {
        return FieldKind::Switch;
    }
    if possible.is_empty() {
        return FieldKind::Text;
    }
    let help = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    // what need not be chosen can be left open again
    let open = argument.get_default_values().is_empty().then(<(String, String)>::default);
    let named = possible.iter().map(|value| (value.get_name().to_owned(), help(value)));
    FieldKind::Choice(open.into_iter().chain(named).collect())
}

/// What the flag's value is read as, if that is a number.
fn number_kind(argument: &Arg) -> Option<NumberKind> {
    let read = argument.get_value_parser().type_id();
    let is_one_of = |types: &[TypeId]| types.iter().any(|known| read == *known);
    if is_one_of(&[TypeId::of::<usize>(), TypeId::of::<u32>(), TypeId::of::<u64>()]) {
        return Some(NumberKind::Whole);
    }
    is_one_of(&[TypeId::of::<f32>(), TypeId::of::<f64>()]).then_some(NumberKind::Real)
}

/// A value of a settings file as it is given on the command line.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// What the command line makes of these flags, or the first line of what it says about them.
fn parse(command: &mut Command, arguments: &[OsString]) -> std::result::Result<Config, String> {
    let mut config = || -> Result<Config> {
        let failed = |error: clap::Error| {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // what follows an empty line is about help and usage
            Error::Config(text.split("\n\n").next().unwrap_or_default().trim_end().to_owned())
        };
        let matches = command.try_get_matches_from_mut(arguments).map_err(failed)?;
        Config::from_arg_matches(&matches).map_err(failed)
    };
    config().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_flags_that_there_are() {
        for text in crate::train::Binding::all_texts() {
            for flag in text.split("--").skip(1) {
                let flag = flag.split([' ', ',', '=']).next().expect("split gives something");
                assert!(SECTIONS.iter().any(|(_, keys)| keys.contains(&flag)), "{flag}");
            }
        }
    }

    #[test]
    fn a_form_says_what_its_settings_say() {
        let mut config = Config { epochs: 3, lr: Some(0.5), seed: 7, ..Config::default() };
        config.freeze = vec!["layer1.*".into(), "conv1.*".into()];
        config.weights = Some("first.safetensors".into());
        config.skip_weights = vec!["fc.*".into(), "*.bias".into()];
        config.freeze_statistics = true;
        config.tensorboard = false;
        assert_eq!(Form::new(&config).config(), Ok(&config));
        assert_eq!(Form::new(&Config::default()).config(), Ok(&Config::default()));
    }

    #[test]
    fn mistakes_are_said_where_they_are() {
        let mut form = Form::new(&Config::default());
        form.field("epochs").value = "many".into();
        form.check();
        assert_eq!(form.field("epochs").problem, Some(Problem::NotA(NumberKind::Whole)));
        assert_eq!(form.fields.iter().filter(|field| field.problem.is_some()).count(), 1);
        assert!(form.config().is_err());
        form.field("epochs").value = "2".into();
        form.field("momentum").value = "1.5".into();
        form.check();
        assert!(form.fields.iter().all(|field| field.problem.is_none()), "each of them is a number");
        assert!(form.config().expect_err("out of range").contains("momentum"));
    }

    #[test]
    fn mistakes_are_said_in_few_words() {
        let mut form = Form::new(&Config::default());
        for (key, value, said) in [
            ("image-size", "x", "a whole number"),
            ("epochs", "-1", "a whole number"),
            ("epochs", "2.5", "a whole number"),
            ("lr", "fast", "a number"),
            ("seed", "99999999999", "99999999999 is not in 0..=4294967295"),
        ] {
            form.field(key).value = value.into();
            form.check();
            let problem = form.field(key).problem.clone().unwrap_or_else(|| panic!("{key} is not {value}"));
            assert_eq!(problem.text(Text(crate::ui::Language::English)), said);
        }
        form.field("schedule").value = "never".into();
        form.check();
        assert!(
            matches!(&form.field("schedule").problem, Some(Problem::Said(said)) if !said.contains("--schedule")),
            "{:?}",
            form.field("schedule").problem
        );
    }

    #[test]
    fn what_is_not_given_follows_from_the_rest() {
        let mut form = Form::new(&Config::default());
        let hint = |form: &mut Form, key: &str| form.field(key).hint.clone();
        for (optimizer, lr, decay) in [("sgd", "0.05", "0.0"), ("adamw", "0.002", "0.01")] {
            form.field("optimizer").value = optimizer.into();
            form.check();
            assert_eq!((&*hint(&mut form, "lr"), &*hint(&mut form, "weight-decay")), (lr, decay));
        }
    }

    #[test]
    fn kinds_follow_the_flags() {
        let form = Form::new(&Config::default());
        let kind = |key: &str| &form.fields.iter().find(|field| field.key == key).expect("a flag").kind;
        assert!(matches!(kind("tensorboard"), FieldKind::Switch));
        assert!(matches!(kind("freeze-statistics"), FieldKind::Switch));
        assert!(
            matches!(kind("model"), FieldKind::Choice(models) if models.iter().any(|(name, _)| name == "resnet20"))
        );
        assert!(matches!(kind("lr"), FieldKind::Text));
    }
}
