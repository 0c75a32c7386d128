//! Arguments before and after clap reads them: what it takes for something else, or cannot explain; and how their help
//! is laid out.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Arg, Command};

use crate::train::SECTIONS;

/// The settings that `-h` shows: those that most runs are given.
const OFTEN_GIVEN: [&str; 13] = [
    "dataset",
    "download",
    "model",
    "weights",
    "epochs",
    "batch-size",
    "optimizer",
    "lr",
    "seed",
    "augment",
    "device",
    "out",
    "name",
];

/// Columns of the help at most, however wide the terminal is.
const WIDEST: usize = 100;

/// The command with the settings of a training under their headings, wherever they may be given.
pub(super) fn laid_out(command: Command) -> Command {
    let command = command.max_term_width(WIDEST).mut_args(under_heading);
    ["train", "tune"]
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |subcommand| subcommand.mut_args(under_heading)))
}

/// The command for which variables of the environment that are empty are not there, as they are not for the library.
pub(super) fn without_empty_variables(command: Command) -> Command {
    let is_empty = |argument: &Arg| {
        let value = argument.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.to_str().is_some_and(|text| text.trim().is_empty()))
    };
    let without = move |argument: Arg| if is_empty(&argument) { argument.env(Resettable::Reset) } else { argument };
    command.mut_args(without).mut_subcommands(|subcommand| subcommand.mut_args(without))
}

fn under_heading(argument: Arg) -> Arg {
    let key = argument.get_long().unwrap_or_default().to_owned();
    let placed = SECTIONS.iter().flat_map(|(title, keys)| keys.iter().map(move |key| (title, key)));
    match placed.enumerate().find(|(_, (_, known))| **known == key) {
        Some((place, (title, _))) => {
            argument.help_heading(*title).display_order(place).hide_short_help(!OFTEN_GIVEN.contains(&key.as_str()))
        }
        None => argument,
    }
}

/// Puts negative numbers behind the equals sign of their flags: clap would take `-1e-3` for a flag, and of `-1` it
/// would not let the setting say what is wrong.
pub(super) fn with_negative_numbers(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let is_negative = text.starts_with('-') && text.parse::<f64>().is_ok();
        match joined.last_mut().filter(|last| is_negative && last.to_str().is_some_and(is_bare_flag)) {
            Some(flag) => {
                flag.push("=");
                flag.push(&argument);
            }
            None => joined.push(argument),
        }
    }
    joined
}

fn is_bare_flag(text: &str) -> bool {
    text.len() > 2 && text.starts_with("--") && !text.contains('=')
}

/// The error that says what to write instead, where what clap did not expect is a value behind a flag that takes one
/// behind an equals sign alone, as in `--augment cifar`; else clap's own.
pub(super) fn without_equals(command: &mut Command, arguments: &[OsString], error: Error) -> Error {
    let unexpected = match error.kind() {
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        // what stands where a command may, behind flags
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict => error.get(ContextKind::InvalidSubcommand),
        _ => None,
    };
    let unexpected = match unexpected {
        Some(ContextValue::String(value)) if command.find_subcommand(value).is_none() => value,
        _ => return error,
    };
    // flags of training before a subcommand are an error of another kind
    let named = arguments.get(1).and_then(|name| name.to_str()).filter(|name| command.find_subcommand(name).is_some());
    let command = match named {
        Some(name) => command.find_subcommand_mut(name).expect("it was found"),
        None => command,
    };
    let needs_equals =
        |flag: &str| command.get_arguments().any(|arg| arg.is_require_equals_set() && arg.get_long() == Some(flag));
    let said = arguments.windows(2).find_map(|pair| {
        let (flag, value) = (pair[0].to_str()?.strip_prefix("--")?, pair[1].to_str()?);
        (value == unexpected && needs_equals(flag))
            .then(|| format!("--{flag} takes a value behind an equals sign only: write --{flag}={value}"))
    });
    said.map_or(error, |said| command.error(ErrorKind::UnknownArgument, said))
}

/// The error with a tip, where a model's file stands in place of what `brasa bench` may measure; else as it is.
pub(super) fn with_tip(mut error: Error) -> Error {
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let value = said(ContextKind::InvalidValue);
    if said(ContextKind::InvalidArg) == "[SUITES]..." && value.to_ascii_lowercase().ends_with(".onnx") {
        let tip = format!("to measure a model, write --onnx {value}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_joined_with_their_flags_and_nothing_else_is() {
        let joined = |text: &str| {
            let words = with_negative_numbers(text.split(' ').map(OsString::from));
            words.into_iter().map(|word| word.into_string().expect("UTF-8")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(joined("brasa --lr -1e-3 --seed -1 --ema -inf"), "brasa --lr=-1e-3 --seed=-1 --ema=-inf");
        for same in ["brasa --lr --epochs 3", "brasa --lr=1 -1", "brasa eval -1", "brasa -- -1", "brasa --lr 1e-3 -h"] {
            assert_eq!(joined(same), same);
        }
    }
}
