//! NVIDIA's management library.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::Clock;

use crate::device::DeviceInfo;

/// A card that the library knows.
pub(crate) struct Nvidia {
    library: Box<Nvml>,
    number: u32,
}

impl Nvidia {
    /// The card that an adapter is: by its address, or by its name if no other has that.
    pub(super) fn of(info: &DeviceInfo) -> Result<Self, String> {
        let library = Nvml::init().map_err(|error| format!("NVIDIA's management library: {error}"))?;
        let library = Box::new(library);
        let by_address = info.pci_bus.as_deref().and_then(|bus| library.device_by_pci_bus_id(bus).ok());
        if let Some(number) = by_address.and_then(|device| device.index().ok()) {
            return Ok(Self { library, number });
        }
        let count = library.device_count().map_err(|error| error.to_string())?;
        let is_it = |&number: &u32| {
            let name = library.device_by_index(number).and_then(|device| device.name());
            name.is_ok_and(|name| info.name.contains(&name) || name.contains(&info.name))
        };
        let alike: Vec<u32> = (0..count).filter(is_it).collect();
        match alike[..] {
            [number] => Ok(Self { library, number }),
            _ => Err(format!("{} devices of NVIDIA's management library have its name", alike.len())),
        }
    }

    /// Energy used since the driver was loaded, in millijoules.
    pub(super) fn millijoules(&self) -> Option<u64> {
        self.library.device_by_index(self.number).ok()?.total_energy_consumption().ok()
    }

    /// The part of the last moment in which a kernel ran.
    pub(super) fn utilisation(&self) -> Option<f64> {
        let rates = self.library.device_by_index(self.number).ok()?.utilization_rates().ok()?;
        Some(f64::from(rates.gpu) / 100.0)
    }

    /// Bytes of its memory that nobody uses.
    #[cfg(feature = "ui")]
    pub(super) fn free_bytes(&self) -> Option<u64> {
        Some(self.library.device_by_index(self.number).ok()?.memory_info().ok()?.free)
    }

    pub(super) fn clock(&self) -> Option<(f64, Option<&'static str>)> {
        const HEAT: ThrottleReasons = ThrottleReasons::SW_THERMAL_SLOWDOWN.union(ThrottleReasons::HW_THERMAL_SLOWDOWN);
        const POWER: ThrottleReasons = ThrottleReasons::SW_POWER_CAP.union(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN);
        let device = self.library.device_by_index(self.number).ok()?;
        let clock = device.clock_info(Clock::SM).ok()?;
        let reasons = device.current_throttle_reasons().unwrap_or(ThrottleReasons::NONE);
        let held =
            [(HEAT, "heat"), (POWER, "a limit of power")].into_iter().find(|(some, _)| reasons.intersects(*some));
        Some((f64::from(clock), held.map(|(_, why)| why)))
    }
}
