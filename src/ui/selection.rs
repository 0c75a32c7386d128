//! Which runs are drawn, in which colour, and which one pages about one run are about.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use egui::Color32;

use crate::hash::fnv_1a;
use crate::runs::Recording;

use super::palette;

/// Runs that are drawn together before anybody chooses: the newest ones.
const SHOWN_AT_FIRST: usize = 10;
const MAX_REMEMBERED: usize = 1000;

/// What was chosen about runs.
#[derive(Default)]
pub(super) struct Selection {
    runs: HashMap<PathBuf, Chosen>,
    focus: Option<PathBuf>,
    /// What was chosen before, of these runs and of others.
    remembered: Remembered,
}

struct Chosen {
    color: Color32,
    shown: bool,
    /// By a person, so that it is worth remembering.
    by_hand: bool,
}

/// Colour and whether it is drawn, of runs by their folders.
pub(super) type Remembered = BTreeMap<String, ([u8; 3], bool)>;

impl Selection {
    /// With what was chosen another day.
    pub(super) fn remembering(remembered: &Remembered) -> Self {
        Self { remembered: remembered.clone(), ..Self::default() }
    }

    /// What should be remembered: of all these runs, and of others as far as there is room.
    pub(super) fn to_remember(&self) -> Remembered {
        let chosen = self.runs.iter().filter(|(_, chosen)| chosen.by_hand);
        let mut all: Remembered = chosen
            .map(|(run, Chosen { color, shown, .. })| (key(run), ([color.r(), color.g(), color.b()], *shown)))
            .collect();
        for (run, chosen) in &self.remembered {
            if all.len() < MAX_REMEMBERED {
                all.entry(run.clone()).or_insert(*chosen);
            }
        }
        all
    }

    /// Takes in runs that were not there before, the newest of which is the last; the one in focus may be gone.
    pub(super) fn follow(&mut self, runs: &[Recording]) {
        let mut new = Vec::new();
        for run in runs.iter().rev() {
            if self.runs.contains_key(&run.folder) {
                continue;
            }
            let shown = self.runs.len() + new.len() < SHOWN_AT_FIRST;
            match self.remembered.get(&key(&run.folder)) {
                Some(&([r, g, b], shown)) => {
                    let chosen = Chosen { color: Color32::from_rgb(r, g, b), shown, by_hand: true };
                    self.runs.insert(run.folder.clone(), chosen);
                }
                None => new.push((run, shown)),
            }
        }
        // the oldest first, so that a run keeps its colour when others have come after it
        for (run, shown) in new.into_iter().rev() {
            let own = own_color(&run.place);
            let color = if shown { self.free_color(own) } else { palette::color(own) };
            self.runs.insert(run.folder.clone(), Chosen { color, shown, by_hand: false });
        }
        if !self.focus.as_ref().is_some_and(|focus| runs.iter().any(|run| run.folder == *focus)) {
            // one that is drawn, if any is
            let drawn = runs.iter().rfind(|run| self.is_shown(&run.folder));
            self.focus = drawn.or(runs.last()).map(|run| run.folder.clone());
        }
    }

    /// The first colour from `own` on that no run has which is drawn; of those that the fewest have if all are taken.
    fn free_color(&self, own: usize) -> Color32 {
        let uses = |color| self.runs.values().filter(|chosen| chosen.shown && chosen.color == color).count();
        let colors = (0..palette::COUNT).map(|further| palette::color(own + further));
        colors.min_by_key(|color| uses(*color)).unwrap_or(Color32::GRAY)
    }

    /// The run's colour.
    pub(super) fn color(&self, run: &Path) -> Color32 {
        self.runs.get(run).map_or(Color32::GRAY, |chosen| chosen.color)
    }

    /// Gives the run another colour.
    pub(super) fn set_color(&mut self, run: &Path, color: Color32) {
        if let Some(chosen) = self.runs.get_mut(run) {
            (chosen.color, chosen.by_hand) = (color, true);
        }
    }

    /// True if the run is drawn.
    pub(super) fn is_shown(&self, run: &Path) -> bool {
        self.runs.get(run).is_some_and(|chosen| chosen.shown)
    }

    /// Draws the run, or not.
    pub(super) fn show(&mut self, run: &Path, shown: bool) {
        let Some(chosen) = self.runs.get(run).filter(|chosen| chosen.shown != shown) else { return };
        // the colour that it has by itself may be another one's by now
        let others = shown && !chosen.by_hand;
        let place =
            others.then(|| (0..palette::COUNT).find(|&number| palette::color(number) == chosen.color)).flatten();
        let color = place.map_or(chosen.color, |place| self.free_color(place));
        self.runs.insert(run.to_owned(), Chosen { color, shown, by_hand: true });
    }

    /// Draws this run alone.
    pub(super) fn show_only(&mut self, run: &Path) {
        for (folder, chosen) in &mut self.runs {
            (chosen.shown, chosen.by_hand) = (folder == run, true);
        }
    }

    /// Pages about one run are about this one from now on, which is drawn as well.
    pub(super) fn set_focus(&mut self, run: &Path) {
        self.focus = Some(run.to_owned());
        self.show(run, true);
    }

    /// The run that pages about one run are about.
    pub(super) fn focus<'a>(&self, runs: &'a [Recording]) -> Option<&'a Recording> {
        let focus = self.focus.as_ref()?;
        runs.iter().find(|run| run.folder == *focus)
    }

    /// The runs that are drawn, in the order in which they are listed.
    pub(super) fn shown<'a>(&self, runs: &'a [Recording]) -> Vec<&'a Recording> {
        runs.iter().filter(|run| self.is_shown(&run.folder)).collect()
    }
}

/// A run's folder, wherever the program was started.
fn key(run: &Path) -> String {
    std::path::absolute(run).unwrap_or_else(|_| run.to_owned()).to_string_lossy().into_owned()
}

/// The place in the palette of a run that is alone. It follows from its folder's name and that of the folder around it,
/// wherever these are: runs of other programs are often called `train` and `test` in one folder each.
fn own_color(place: &Path) -> usize {
    let names = place.components().rev().take(2).map(|name| name.as_os_str().as_encoded_bytes());
    (fnv_1a(names.flatten().copied()) % palette::COUNT as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_by_hand_is_remembered() {
        let runs = ["c", "b", "a"].map(|name| Recording::open(name.as_ref()));
        let mut before = Selection::default();
        before.follow(&runs);
        before.show("a".as_ref(), false);
        before.set_color("b".as_ref(), Color32::RED);
        let remembered = before.to_remember();
        assert_eq!(remembered.len(), 2, "nobody chose anything about c");
        let mut after = Selection::remembering(&remembered);
        after.follow(&runs);
        assert!(!after.is_shown("a".as_ref()) && after.is_shown("b".as_ref()));
        assert_eq!(after.color("b".as_ref()), Color32::RED);
        assert_eq!(after.to_remember(), remembered);
        assert_eq!(after.focus(&runs).map(|run| run.name.as_str()), Some("b"), "the newest one that is drawn");
    }

    fn opened(names: impl Iterator<Item = usize>) -> Vec<Recording> {
        names.map(|number| Recording::open(format!("run-{number}").as_ref())).collect()
    }

    fn colors(selection: &Selection, runs: &[Recording]) -> Vec<Color32> {
        runs.iter().map(|run| selection.color(&run.folder)).collect()
    }

    #[test]
    fn a_run_keeps_its_colour_when_others_come() {
        let runs = opened(0..10);
        let mut growing = Selection::default();
        let mut seen = Vec::new();
        for count in 1..=runs.len() {
            growing.follow(&runs[..count]);
            assert_eq!(seen, colors(&growing, &runs[..count - 1]));
            seen = colors(&growing, &runs[..count]);
        }
        let different: std::collections::HashSet<_> = seen.iter().collect();
        assert_eq!(different.len(), 10, "no two have one");
        let mut another_day = Selection::default();
        another_day.follow(&runs);
        assert_eq!(colors(&another_day, &runs), seen);
    }

    #[test]
    fn a_run_that_is_drawn_later_gets_a_colour_that_is_free() {
        let runs = opened(0..40);
        let mut selection = Selection::default();
        selection.follow(&runs);
        let shown = colors(&selection, &runs[30..]);
        selection.show(&runs[35].folder, false);
        selection.show(&runs[0].folder, true);
        assert_eq!(selection.color(&runs[0].folder), shown[5], "the only one that nobody drawn has");
        let red = Color32::from_rgb(1, 2, 3);
        selection.set_color(&runs[1].folder, red);
        selection.show(&runs[1].folder, true);
        assert_eq!(selection.color(&runs[1].folder), red);
    }

    #[test]
    fn the_newest_runs_are_drawn_at_first() {
        let runs: Vec<_> = (0..15).map(|number| Recording::open(format!("run-{number}").as_ref())).collect();
        let mut selection = Selection::default();
        selection.follow(&runs);
        let shown: Vec<&str> = selection.shown(&runs).into_iter().map(|run| run.name.as_str()).collect();
        assert_eq!((shown.len(), shown[0], shown[9]), (10, "run-5", "run-14"));
        assert_eq!(selection.focus(&runs).map(|run| run.name.as_str()), Some("run-14"));
    }
}
