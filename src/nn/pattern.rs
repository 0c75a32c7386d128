//! Choosing variables by name.

use crate::error::{Error, Result};
use crate::runtime::Var;
use crate::units::some;

use super::Variables;

/// True if `name` is what `pattern` describes: `*` stands for any characters, also none, dots included.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(start) else {
        return false;
    };
    let mut places = name.char_indices().map(|(place, _)| place).chain([name.len()]);
    places.any(|place| matches(rest, &name[place..]))
}

/// The parameters of `module` but those whose names match one of `frozen`, such as `layer1.*`: what to hand to an
/// optimizer. `*` stands for any characters.
///
/// The others keep their values and cost no gradients. Running statistics are not parameters: they follow the data also
/// in frozen layers, unless [`freeze_statistics`](super::freeze_statistics) says otherwise.
///
/// # Errors
/// If a pattern matches no parameter.
///
/// ```
/// # use brasa::{Device, models::Mlp, nn::{Init, trainable}};
/// # fn main() -> brasa::Result<()> {
/// let model = Mlp::new(&[64, 32, 10], &Init::new(&Device::cpu(), 42))?;
/// let head = trainable(&model, &["0.*"])?;
/// assert_eq!(head.iter().map(|parameter| parameter.name()).collect::<Vec<_>>(), ["2.weight", "2.bias"]);
/// # Ok(())
/// # }
/// ```
pub fn trainable<M: Variables + ?Sized>(module: &M, frozen: &[&str]) -> Result<Vec<Var>> {
    let mut parameters = module.parameters();
    for pattern in frozen {
        if !parameters.iter().any(|parameter| matches(pattern, parameter.name())) {
            let names = some(&parameters.iter().map(Var::name).collect::<Vec<_>>());
            let message = format!("no parameter is called `{pattern}`, so it cannot be frozen; there are {names}");
            return Err(Error::Config(message));
        }
    }
    parameters.retain(|parameter| !frozen.iter().any(|pattern| matches(pattern, parameter.name())));
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name, expected) in [
            ("fc.weight", "fc.weight", true),
            ("fc", "fc.weight", false),
            ("fc.*", "fc.weight", true),
            ("*.bias", "layer1.0.conv.bias", true),
            ("layer*.conv*.weight", "layer1.0.conv2.weight", true),
            ("layer*.conv*.weight", "layer1.0.bn2.weight", false),
            ("*", "", true),
            ("a*b*b", "ab", false),
            ("*ü*", "für", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
