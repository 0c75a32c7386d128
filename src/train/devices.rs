//! Which devices settings name.

use crate::device::Device;
use crate::error::{Error, Result};

use super::auto::{AUTO, worth_trying};

/// What settings say for all GPUs that are none of software.
pub(super) const GPUS: &str = "gpus";

/// The devices that a run is to learn on: one, or several that are separated by commas, or [`GPUS`]. Without a name
/// [`Device::best`].
///
/// # Errors
/// If there is no such device, one is named twice, or it cannot be opened.
pub(super) fn open(names: Option<&str>) -> Result<Vec<Device>> {
    let Some(names) = names else { return Ok(vec![Device::best()?]) };
    if names.trim().eq_ignore_ascii_case(GPUS) {
        let gpus = worth_trying(&Device::list()).into_iter().filter(|info| info.kind.is_taken_unasked());
        let gpus = gpus.map(|info| Device::named(&info.selector)).collect::<Result<Vec<_>>>()?;
        let message = "device: `gpus` are all GPUs but those of software, and there is none here (`brasa devices` lists what there is)";
        return if gpus.is_empty() { Err(Error::Config(message.into())) } else { Ok(gpus) };
    }
    match Device::named(names) {
        Ok(device) => return Ok(vec![device]),
        // names of adapters may have commas, too
        Err(Error::UnknownDevice { .. }) if names.contains(',') => {}
        Err(error) => return Err(with_more(error)),
    }
    let mut devices = Vec::new();
    for name in names.split(',') {
        let of_all = [AUTO, GPUS].into_iter().find(|word| name.trim().eq_ignore_ascii_case(word));
        if let Some(word) = of_all {
            let message =
                format!("device: `{word}` chooses devices itself, and cannot be one of several: give it alone");
            return Err(Error::Config(message));
        }
        let device = Device::named(name).map_err(with_more)?;
        if devices.contains(&device) {
            let message = format!("device: `{names}` names {} twice", device.name());
            return Err(Error::Config(message));
        }
        devices.push(device);
    }
    Ok(devices)
}

/// How the devices that settings name are opened.
pub(super) type OpenDevices = fn(Option<&str>) -> Result<Vec<Device>>;

/// The same as devices of one's own: what is done on them leaves the random numbers alone of a run that is training.
pub(super) fn open_own(names: Option<&str>) -> Result<Vec<Device>> {
    open(names)?.iter().map(Device::reopen).collect()
}

/// The first of them: what evaluates, and predicts.
pub(super) fn open_first(names: Option<&str>) -> Result<Device> {
    Ok(open(names)?.swap_remove(0))
}

/// Of what settings may say, a library's devices know no [`AUTO`] and no [`GPUS`].
fn with_more(error: Error) -> Error {
    match error {
        Error::UnknownDevice { name, known } => Error::UnknownDevice {
            name,
            known: format!("{known}, {AUTO}, {GPUS}, or several with commas between them"),
        },
        other => other,
    }
}

/// For people: what they are called.
pub(super) fn names(devices: &[Device]) -> String {
    devices.iter().map(Device::name).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose random numbers are those of nobody else.
    #[test]
    fn forecasts_have_devices_of_their_own() {
        let own = open_own(Some("cpu")).expect("there is always one");
        assert!(own[0] != Device::cpu() && open(Some("cpu")).expect("the same")[0] == Device::cpu());
    }

    #[test]
    fn a_list_of_devices_says_what_may_be_in_it() {
        let message = |names: &str| open(Some(names)).expect_err("no such devices").to_string();
        for word in ["gpus", " Auto"] {
            let said = message(&format!("cpu,{word}"));
            assert!(
                said.contains("cannot be one of several") && said.contains(word.trim().to_lowercase().as_str()),
                "{said}"
            );
        }
        let said = message("cpu,nonesuch");
        assert!(said.contains("`nonesuch`") && said.contains("or several with commas between them"), "{said}");
        assert!(message("cpu,cpu").contains("twice"));
    }
}
