//! Schedules as text: `NAME:KEY=VALUE,…`, products with ` * `, sequences with ` then@STEP `.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

use super::{Anneal, Cycle, Plateau, Schedule};

const NAMES: &str = "constant, linear, step, multistep, exponential, polynomial, cosine, cosine-restarts, onecycle, cyclic, \
                     plateau";

/// The settings behind a name, taken one by one.
struct Settings<'a> {
    text: &'a str,
    left: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    fn new(text: &'a str) -> Result<(&'a str, Self)> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut left = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.trim().is_empty()) {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(Error::Config(format!("schedule `{text}`: `{pair}` is not of the form key=value")));
            };
            left.push((key.trim(), value.trim()));
        }
        Ok((name.trim(), Self { text, left, known: Vec::new() }))
    }

    fn wrong<T>(&self, what: &str) -> Result<T> {
        Err(Error::Config(format!("schedule `{}`: {what}", self.text)))
    }

    /// The value of `key`, if there is one.
    fn find<T: FromStr>(&mut self, key: &'static str) -> Result<Option<T>> {
        self.known.push(key);
        let Some(position) = self.left.iter().position(|(other, _)| *other == key) else { return Ok(None) };
        let (_, value) = self.left.remove(position);
        match value.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => self.wrong(&format!("{key} is `{value}`, which is not a value for it")),
        }
    }

    fn or<T: FromStr>(&mut self, key: &'static str, default: T) -> Result<T> {
        Ok(self.find(key)?.unwrap_or(default))
    }

    /// The value of `key`, which there has to be, such as `example`.
    fn need<T: FromStr>(&mut self, key: &'static str, example: &str) -> Result<T> {
        if let Some(value) = self.find(key)? {
            return Ok(value);
        }
        let name = self.text.split(':').next().unwrap_or_default().trim();
        self.wrong(&format!("{key} is missing, as in {name}:{key}={example}"))
    }

    /// One of a few words; the first is the default.
    fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Result<T> {
        let given: String = self.or(key, words[0].0.to_owned())?;
        match words.iter().find(|(word, _)| *word == given) {
            Some((_, value)) => Ok(*value),
            None => {
                let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                self.wrong(&format!("{key} is `{given}`; known are {}", words.join(", ")))
            }
        }
    }

    fn end(self) -> Result<()> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => self.wrong(&format!("unknown setting `{key}`; known are {}", self.known.join(", "))),
        }
    }
}

/// A list of steps as `30/60`.
struct Steps(Vec<u64>);

impl FromStr for Steps {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        text.split('/').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

fn single(text: &str) -> Result<Schedule> {
    let (name, mut settings) = Settings::new(text)?;
    let it = &mut settings;
    let schedule = match name {
        "constant" => Schedule::Constant { factor: it.or("factor", 1.0)?, steps: it.or("steps", 0)? },
        "linear" => {
            let (start, end) = (it.or("start", 1.0 / 3.0)?, it.or("end", 1.0)?);
            Schedule::Linear { start, end, steps: it.find("steps")? }
        }
        "step" => Schedule::Step { size: it.need("size", "1000")?, gamma: it.or("gamma", 0.1)? },
        "multistep" => Schedule::MultiStep { at: it.need::<Steps>("at", "1000/2000")?.0, gamma: it.or("gamma", 0.1)? },
        "exponential" => Schedule::Exponential { gamma: it.need("gamma", "0.999")? },
        "polynomial" => Schedule::Polynomial { steps: it.find("steps")?, power: it.or("power", 1.0)? },
        "cosine" => Schedule::Cosine { steps: it.find("steps")?, min: it.or("min", 0.0)? },
        "cosine-restarts" => {
            let (first, longer) = (it.need("first", "1000")?, it.or("longer", 1)?);
            Schedule::CosineRestarts { first, longer, min: it.or("min", 0.0)? }
        }
        "onecycle" => Schedule::OneCycle {
            steps: it.find("steps")?,
            rise: it.or("rise", 0.3)?,
            div: it.or("div", 25.0)?,
            final_div: it.or("final", 1e4)?,
            anneal: it.word("anneal", &[("cos", Anneal::Cos), ("linear", Anneal::Linear)])?,
            three_phase: it.or("three-phase", false)?,
        },
        "cyclic" => {
            let gamma = it.or("gamma", 1.0)?;
            let modes = [
                ("triangular", Cycle::Triangular),
                ("triangular2", Cycle::Triangular2),
                ("exp_range", Cycle::ExpRange(gamma)),
            ];
            let (max, up, down) = (it.need("max", "0.1")?, it.or("up", 2000)?, it.find("down")?);
            Schedule::Cyclic { max, up, down, mode: it.word("mode", &modes)? }
        }
        "plateau" => {
            let usual = Plateau::default();
            Schedule::Plateau(Plateau {
                maximize: it.word("mode", &[("min", false), ("max", true)])?,
                factor: it.or("factor", usual.factor)?,
                patience: it.or("patience", usual.patience)?,
                threshold: it.or("threshold", usual.threshold)?,
                absolute: it.word("threshold-mode", &[("rel", false), ("abs", true)])?,
                cooldown: it.or("cooldown", usual.cooldown)?,
                min: it.or("min", usual.min)?,
                epsilon: it.or("eps", usual.epsilon)?,
            })
        }
        _ => return settings.wrong(&format!("unknown name `{name}`; known are {NAMES}")),
    };
    let warmup = it.or("warmup", 0)?;
    settings.end()?;
    Ok(schedule.with_warmup(warmup))
}

fn product(text: &str) -> Result<Schedule> {
    let mut parts = text.split('*').map(|part| single(part.trim())).collect::<Result<Vec<_>>>()?;
    Ok(if parts.len() == 1 { parts.remove(0) } else { Schedule::Chained(parts) })
}

impl FromStr for Schedule {
    type Err = Error;

    /// # Errors
    /// If a name or a setting is unknown, missing or out of range: which one, and what is known.
    fn from_str(text: &str) -> Result<Self> {
        let mut pieces = text.split("then@");
        let mut parts = vec![product(pieces.next().unwrap_or_default().trim())?];
        let mut starts = Vec::new();
        for piece in pieces {
            let (start, rest) = piece.trim().split_once(' ').unwrap_or((piece, ""));
            let Ok(start) = start.parse() else {
                return Err(Error::Config(format!("schedule `{text}`: `{start}` is not a step to start at")));
            };
            starts.push(start);
            parts.push(product(rest.trim())?);
        }
        let schedule = if starts.is_empty() { parts.remove(0) } else { Self::Sequential { parts, starts } };
        schedule.check()?;
        Ok(schedule)
    }
}

impl TryFrom<String> for Schedule {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> Self {
        schedule.to_string()
    }
}

/// A setting, left out if there is none.
fn optional(key: &str, value: Option<u64>) -> String {
    value.map(|value| format!(",{key}={value}")).unwrap_or_default()
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant { factor, steps: 0 } if *factor == 1.0 => write!(f, "constant"),
            Self::Constant { factor, steps } => write!(f, "constant:factor={factor},steps={steps}"),
            Self::Linear { start, end, steps } => {
                write!(f, "linear:start={start},end={end}{}", optional("steps", *steps))
            }
            Self::Step { size, gamma } => write!(f, "step:size={size},gamma={gamma}"),
            Self::MultiStep { at, gamma } => {
                let at: Vec<_> = at.iter().map(u64::to_string).collect();
                write!(f, "multistep:at={},gamma={gamma}", at.join("/"))
            }
            Self::Exponential { gamma } => write!(f, "exponential:gamma={gamma}"),
            Self::Polynomial { steps, power } => write!(f, "polynomial:power={power}{}", optional("steps", *steps)),
            Self::Cosine { steps, min } => write!(f, "cosine:min={min}{}", optional("steps", *steps)),
            Self::CosineRestarts { first, longer, min } => {
                write!(f, "cosine-restarts:first={first},longer={longer},min={min}")
            }
            Self::OneCycle { steps, rise, div, final_div, anneal, three_phase } => {
                let anneal = if *anneal == Anneal::Cos { "cos" } else { "linear" };
                write!(
                    f,
                    "onecycle:rise={rise},div={div},final={final_div},anneal={anneal},three-phase={three_phase}"
                )?;
                write!(f, "{}", optional("steps", *steps))
            }
            Self::Cyclic { max, up, down, mode } => {
                let mode = match mode {
                    Cycle::Triangular => "triangular".to_owned(),
                    Cycle::Triangular2 => "triangular2".to_owned(),
                    Cycle::ExpRange(gamma) => format!("exp_range,gamma={gamma}"),
                };
                write!(f, "cyclic:max={max},up={up}{},mode={mode}", optional("down", *down))
            }
            Self::Plateau(Plateau { maximize, factor, patience, threshold, absolute, cooldown, min, epsilon }) => {
                let (mode, by) = (if *maximize { "max" } else { "min" }, if *absolute { "abs" } else { "rel" });
                write!(f, "plateau:mode={mode},factor={factor},patience={patience},threshold={threshold}")?;
                write!(f, ",threshold-mode={by},cooldown={cooldown},min={min},eps={epsilon}")
            }
            Self::Chained(parts) => {
                let parts: Vec<_> = parts.iter().map(Self::to_string).collect();
                f.write_str(&parts.join(" * "))
            }
            Self::Sequential { parts, starts } => {
                for (number, part) in parts.iter().enumerate() {
                    match number.checked_sub(1).and_then(|before| starts.get(before)) {
                        Some(start) => write!(f, " then@{start} {part}")?,
                        None => write!(f, "{part}")?,
                    }
                }
                Ok(())
            }
        }
    }
}
