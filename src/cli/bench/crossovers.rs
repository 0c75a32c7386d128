//! Where devices overtake each other, as people read it.

use crate::bench::{Advice, Crossing, Crossover, Report, seconds};
use crate::units::thousands;

use super::layout::{Style, below, draw, list, title};
use super::tables::{head, times};

pub(super) fn crossovers(report: &Report, style: Style) -> String {
    let method = "sizes grow fourfold until a device has overtaken twice in a row or a run takes too long, and the step between is \
                  halved; each size is run on both devices, warmed up and waited for";
    let mut text = head(report, method, style);
    for found in &report.crossovers {
        one(&mut text, found, style);
    }
    if report.crossovers.is_empty() {
        let opened: Vec<&str> = report
            .devices
            .iter()
            .filter(|device| device.failure.is_none())
            .map(|device| device.selector.as_str())
            .collect();
        if let [only] = opened[..] {
            let why = format!(
                "There is only one device here, {only}, which nothing can overtake. `brasa devices` says what was looked for."
            );
            below(&mut text, &why, style);
            text.push('\n');
        }
    }
    if let Some(advice) = Advice::of(&report.growths) {
        text += &list(&advice.describe(), style);
    }
    text + &list(&report.left_out.iter().map(|why| format!("Left out: {why}")).collect::<Vec<_>>(), style)
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
