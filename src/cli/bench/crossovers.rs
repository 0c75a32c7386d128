//! Where devices overtake each other, as people read it.

use crate::bench::{Advice, Crossing, Crossover, Report, seconds};
use crate::units::thousands;

use super::tables::{head, of_report, times};
use crate::cli::layout::{Style, below, draw, list, title};

/// `chosen` is true if devices were named.
pub(super) fn crossovers(report: &Report, chosen: bool, style: Style) -> String {
    let opened: Vec<&str> = report
        .devices
        .iter()
        .filter(|device| device.failure.is_none())
        .map(|device| device.selector.as_str())
        .collect();
    let mut text = head(report, &method(opened.len()), style);
    for found in &report.crossovers {
        one(&mut text, found, style);
    }
    if let [only] = opened[..] {
        below(&mut text, &alone(only, chosen), style);
        text.push('\n');
    }
    if let Some(advice) = Advice::of(&report.growths) {
        text += &list(&advice.describe(), style);
    }
    text + &list(&of_report(report), style)
}

/// Why a device is held against no other.
fn alone(only: &str, chosen: bool) -> String {
    if chosen {
        return format!(
            "Only {only} was asked for, which nothing can overtake then: name two with --device, or none for all."
        );
    }
    format!(
        "There is only one device here, {only}, which nothing can overtake. `brasa devices` says what was looked for."
    )
}

/// What was done with so many devices.
fn method(devices: usize) -> String {
    let alone = "batches grow fourfold until they are no faster or take too long";
    if devices < 2 {
        return format!("{alone}; each is warmed up and waited for");
    }
    format!(
        "sizes grow fourfold until a device has overtaken twice in a row or a run takes too long, and the step between is halved; \
         each size of a table is run on both its devices. Then the network trains on each device alone, with batches larger than \
         those of the tables: {alone}. All runs are warmed up and waited for"
    )
}

fn one(text: &mut String, found: &Crossover, style: Style) {
    let Crossover { family, devices: [reference, other], points, between, ended_by } = found;
    let said = match between {
        [_, None] => {
            let largest = points.last().map_or(0, |point| point.size);
            let slow = ended_by.is_none() && family.has_larger(largest);
            let why = if slow { "; the next would take too long" } else { "" };
            format!(
                "{other} does not overtake {reference} up to n = {}, the largest that was tried{why}",
                thousands(largest)
            )
        }
        [None, Some(least)] => {
            format!("{other} is faster than {reference} from the smallest size on, n = {}", thousands(least))
        }
        [Some(slower), Some(faster)] => {
            format!("{other} overtakes {reference} between n = {} and {}", thousands(slower), thousands(faster))
        }
    };
    title(text, &family.name(), style);
    let header = vec!["n".to_owned(), reference.clone(), other.clone(), format!("{other} against {reference}")];
    let row = |point: &Crossing| {
        let [one, another] = point.seconds;
        vec![thousands(point.size), seconds(one), seconds(another), times(one / another)]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(points.iter().map(row)).collect();
    *text += &draw(&rows, 1, style);
    below(text, &format!("{said}."), style);
    if let Some(error) = ended_by {
        below(text, &format!("The search ended where a size could not be measured: {error}."), style);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_was_done() {
        // the batches that are larger than any of the table
        assert!(
            method(2)
                .contains("on both its devices. Then the network trains on each device alone, with batches larger")
        );
        assert!(
            alone("cpu", true).contains("Only cpu was asked for") && alone("cpu", false).contains("only one device")
        );
        assert!(!method(1).contains("both") && method(1).contains("batches grow fourfold"), "there is no table");
    }
}
