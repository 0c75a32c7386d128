//! Runs that differ in nothing but their seed.

use std::collections::BTreeMap;

use crate::runs::Recording;

/// Settings that say nothing about what is learned.
const BESIDE: [&str; 11] = [
    "seed",
    "name",
    "out",
    "workers",
    "cache",
    "tensorboard",
    "log-every",
    "download",
    "data-dir",
    "save-every",
    "keep",
];

/// The runs in groups of equal settings but for the seed, in the order of their first ones.
pub(super) fn groups<'a>(runs: &[&'a Recording]) -> Vec<Vec<&'a Recording>> {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    let mut found: Vec<Vec<&Recording>> = Vec::new();
    for run in runs {
        let key = match &run.config {
            Some(config) => key(config),
            // runs of other programs stand alone
            None => format!("\0{}", run.folder.display()),
        };
        let place = *groups.entry(key).or_insert(found.len());
        match found.get_mut(place) {
            Some(group) => group.push(run),
            None => found.push(vec![run]),
        }
    }
    found
}

fn key(config: &toml::Table) -> String {
    let kept = config.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str()));
    kept.map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_makes_no_other_group() {
        let config = |text: &str| key(&text.parse::<toml::Table>().expect("TOML"));
        assert_eq!(config("lr = 0.1\nseed = 1\nname = 'a'"), config("lr = 0.1\nseed = 2"));
        let beside = "download = true\ndata-dir = '/data'\nsave-every = '30s'\nkeep = 3";
        assert_eq!(config(&format!("lr = 0.1\n{beside}")), config("lr = 0.1"));
        assert_ne!(config("lr = 0.1"), config("lr = 0.2"));
    }
}
