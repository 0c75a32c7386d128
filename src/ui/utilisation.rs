//! How busy devices are and what memory they have left, looked at by a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::device::{Device, DeviceInfo, MemoryUse};
use crate::sensors::{Card, Look, Utilisation};

const EVERY: Duration = Duration::from_secs(2);
/// Nobody looks any more.
const FORGOTTEN: Duration = Duration::from_secs(6);
/// Between the first two looks.
const FIRST: Duration = Duration::from_millis(200);

/// What is known of a device at a moment, or why it is not.
#[derive(Clone)]
pub(super) struct Usage {
    /// What this process holds on it; `None` if it has not opened it.
    pub(super) ours: Option<MemoryUse>,
    pub(super) free_bytes: Result<u64, String>,
    /// The part of it that is at work, and what tells that.
    pub(super) busy: Result<(f64, &'static str), String>,
}

/// Looks at devices as long as somebody wants to know.
#[derive(Default)]
pub(super) struct Watch(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    wanted: Option<Instant>,
    running: bool,
    known: BTreeMap<String, Usage>,
}

impl Watch {
    /// What is known by now, by selector; the window is drawn when more is.
    pub(super) fn usages(&self, context: &egui::Context, devices: &[DeviceInfo]) -> BTreeMap<String, Usage> {
        let mut watched = self.0.lock();
        watched.wanted = Some(Instant::now());
        if !watched.running {
            watched.running = true;
            let (shared, context, devices) = (Arc::clone(&self.0), context.clone(), devices.to_vec());
            std::thread::spawn(move || watch(&shared, &context, &devices));
        }
        watched.known.clone()
    }
}

fn watch(shared: &Mutex<Watched>, context: &egui::Context, devices: &[DeviceInfo]) {
    let mut sources: Vec<_> = devices.iter().map(Source::of).collect();
    std::thread::sleep(FIRST);
    loop {
        let known = sources.iter_mut().map(|source| (source.info.selector.clone(), source.usage())).collect();
        {
            let mut watched = shared.lock();
            watched.known = known;
            watched.running = watched.wanted.is_some_and(|wanted| wanted.elapsed() < FORGOTTEN);
            if !watched.running {
                return;
            }
        }
        // at once would be drawn twice
        context.request_repaint_after(Duration::from_millis(1));
        std::thread::sleep(EVERY);
    }
}

/// What tells about a device.
struct Source<'a> {
    info: &'a DeviceInfo,
    card: Result<Card, String>,
    /// With what it showed last.
    utilisation: Result<(Utilisation, Look), String>,
}

impl<'a> Source<'a> {
    fn of(info: &'a DeviceInfo) -> Self {
        let utilisation = Utilisation::of(info).map(|utilisation| {
            let look = utilisation.look();
            (utilisation, look)
        });
        Self { info, card: Card::of(info), utilisation }
    }

    fn usage(&mut self) -> Usage {
        let busy = match &mut self.utilisation {
            Ok((utilisation, before)) => {
                let now = utilisation.look();
                let part = utilisation.between(&std::mem::replace(before, now), &now);
                part.map(|part| (part, utilisation.source())).ok_or_else(|| "it was not reported this time".to_owned())
            }
            Err(why) => Err(why.clone()),
        };
        let free_bytes = match &self.card {
            Ok(card) => card.free_bytes().ok_or_else(|| "this card does not report it".to_owned()),
            // whatever computes on the processor has its memory
            Err(why) => match self.info.kind {
                crate::device::DeviceKind::Cpu | crate::device::DeviceKind::Software => {
                    Device::cpu().free_memory().ok_or_else(|| "this system does not report it".to_owned())
                }
                _ => Err(why.clone()),
            },
        };
        let free_bytes = free_bytes.and_then(|free| within(free, self.info.memory_bytes));
        Usage { ours: Device::if_opened(&self.info.selector).map(|device| device.memory()), free_bytes, busy }
    }
}

/// Free memory, if it is of the memory that the device has: a software GPU may use less of the system's than is free.
fn within(free: u64, total: Option<u64>) -> Result<u64, String> {
    let fits = total.is_none_or(|total| free <= total);
    fits.then_some(free).ok_or_else(|| "the system reports other memory than the device".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_all_memory_is_never_free() {
        assert_eq!([within(2, Some(3)), within(3, Some(3)), within(9, None)], [Ok(2), Ok(3), Ok(9)]);
        assert!(within(20, Some(2)).is_err());
    }

    #[test]
    fn the_processor_is_busy_for_a_part_and_has_memory() {
        let device = Device::cpu();
        let mut source = Source::of(device.info());
        std::thread::sleep(Duration::from_millis(5));
        let usage = source.usage();
        let (part, by) = usage.busy.expect("a process knows its time");
        assert!((0.0..=1.0).contains(&part) && by.contains("processor time"), "{part} {by}");
        assert!(usage.free_bytes.is_ok_and(|bytes| bytes > 0) && usage.ours.is_some());
    }
}
