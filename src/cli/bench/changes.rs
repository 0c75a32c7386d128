//! One report against another, as people read it.

use crate::bench::{Change, Comparison, DeviceReport, Gap, Report, seconds};

use super::tables::times;
use crate::cli::layout::{Style, draw, list};

/// How the second report differs from the first.
pub(super) fn changes(first: &Report, second: &Report, found: &Comparison, style: Style) -> String {
    let mut lines = vec![
        format!("first: report {} (brasa {})", first.id, first.version),
        format!("second: report {} (brasa {})", second.id, second.version),
    ];
    if first.machine.processor != second.machine.processor || first.machine.system != second.machine.system {
        lines.push("These are different machines.".into());
    }
    if first.method != second.method {
        lines.push("They were measured in different ways.".into());
    }
    for (one, other) in [(first, "first"), (second, "second")] {
        if one.build == "debug" {
            lines.push(format!("The {other} was measured with a debug build, which says nothing."));
        }
    }
    for device in &first.devices {
        let Some(other) = second.devices.iter().find(|other| other.selector == device.selector) else { continue };
        let of = |device: &DeviceReport| format!("{} ({}; {})", device.name, device.backend, device.driver);
        if of(device) != of(other) {
            lines.push(format!("{} was {}, and is {} in the second.", device.selector, of(device), of(other)));
        }
    }
    if [first, second].iter().all(|report| report.devices.iter().any(|device| !device.stages.is_empty())) {
        lines.push("Stages are not compared: of one training run each, no spread is known.".into());
    }
    let mut text = list(&lines, style);
    text.push('\n');
    if !found.changes.is_empty() {
        let header = ["case", "device", "first", "second", "the second is", "times as fast"].map(str::to_owned);
        let rows: Vec<Vec<String>> =
            std::iter::once(header.to_vec()).chain(found.changes.iter().map(|change| row(change).to_vec())).collect();
        text += &draw(&rows, 2, style);
    }
    if !found.gaps.is_empty() {
        text.push('\n');
        text += &list(&found.gaps.iter().map(gap).collect::<Vec<_>>(), style);
    }
    text
}

fn row(change: &Change) -> [String; 6] {
    let [one, other] = change.seconds.map(seconds);
    let verdict = match change.between {
        None => format!("{}, by one run", times(change.speedup)),
        Some(_) if change.is_clear => times(change.speedup),
        Some(_) => "the same within the spread".into(),
    };
    let between = change.between.map_or("–".into(), |[least, most]| format!("{least:.2} to {most:.2}"));
    [change.name.clone(), change.device.clone(), one, other, verdict, between]
}

fn gap(gap: &Gap) -> String {
    match &gap.name {
        Some(name) => format!("{name} on {} {}", gap.device, gap.why),
        None => format!("{} {}", gap.device, gap.why),
    }
}
