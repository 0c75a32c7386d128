//! Charts under headings, so that what is seldom looked at takes no room.

use crate::runs::Recording;

use super::families::{Family, is_first};

/// First parts of names under which there are many charts, and seldom one that somebody looks for.
const FOLDED: [&str; 2] = ["dead", "stages"];

/// Some charts in a row.
pub(super) struct Section<'a> {
    pub(super) heading: Heading<'a>,
    pub(super) families: Vec<&'a Family>,
    /// Until somebody says otherwise.
    pub(super) open: bool,
}

/// What stands over a section, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Heading<'a> {
    /// Nothing: these are always there.
    None,
    /// What their names begin with.
    Part(&'a str),
    /// That none has more than a point.
    Single,
}

/// These charts in sections; all of them open if they are what somebody looked for.
pub(super) fn sections<'a>(families: &'a [Family], runs: &[&Recording], all_open: bool) -> Vec<Section<'a>> {
    let points = |family: &Family| {
        let of_run = |run: &&Recording| {
            let series = family.tags.iter().filter_map(|(tag, _)| run.series.get(tag));
            series.map(|series| series.len()).max()
        };
        runs.iter().filter_map(of_run).max().unwrap_or(0)
    };
    of_families(families, |family| points(family) <= 1, all_open)
}

fn of_families(families: &[Family], is_single: impl Fn(&Family) -> bool, all_open: bool) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for family in families {
        let heading = match family.name.split_once('/') {
            Some((part, _)) if !part.is_empty() => Heading::Part(part),
            _ if is_single(family) && !is_first(&family.name) => Heading::Single,
            _ => Heading::None,
        };
        match sections.iter_mut().find(|section| section.heading == heading) {
            Some(section) => section.families.push(family),
            None => sections.push(Section { heading, families: vec![family], open: true }),
        }
    }
    let is_folded = |heading| matches!(heading, Heading::Part(part) if FOLDED.contains(&part));
    for section in sections.iter_mut().filter(|section| section.heading != Heading::None && !all_open) {
        section.open = !is_folded(section.heading) && !section.families.iter().all(|family| is_single(family));
    }
    sections.sort_by_key(|section| (is_folded(section.heading), section.heading));
    // a page of headings alone says nothing
    if let [first, others @ ..] = &mut sections[..] {
        first.open |= others.iter().all(|section| !section.open);
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str], single: &[&str], all_open: bool) -> Vec<String> {
        let family = |name: &&str| Family { name: (*name).to_owned(), tags: Vec::new() };
        let families: Vec<Family> = names.iter().map(family).collect();
        let sections = of_families(&families, |family| single.contains(&family.name.as_str()), all_open);
        let tell = |section: &Section<'_>| {
            let names: Vec<&str> = section.families.iter().map(|family| family.name.as_str()).collect();
            format!("{:?} {}: {}", section.heading, section.open, names.join(" "))
        };
        sections.iter().map(tell).collect()
    }

    #[test]
    fn charts_stand_under_the_first_part_of_their_names() {
        let names = ["loss", "gradient_norm", "dead/a", "epoch/loss", "hp", "stages/b", "stages/c", "test/f1", "zebra"];
        let expected = [
            "None true: loss gradient_norm zebra",
            r#"Part("epoch") true: epoch/loss"#,
            r#"Part("test") false: test/f1"#,
            "Single false: hp",
            r#"Part("dead") false: dead/a"#,
            r#"Part("stages") false: stages/b stages/c"#,
        ];
        let single = ["loss", "hp", "stages/b", "test/f1"];
        assert_eq!(told(&names, &single, false), expected);
        assert!(told(&names, &single, true).iter().all(|section| section.contains(" true: ")));
    }

    #[test]
    fn something_is_always_open() {
        assert_eq!(told(&["stages/a"], &[], false), [r#"Part("stages") true: stages/a"#]);
        assert_eq!(told(&["/", "hp"], &["/", "hp"], false), ["Single true: / hp"]);
        assert_eq!(told(&[], &[], false), [""; 0]);
    }
}
