//! Which runs are drawn, in which colour, and which one pages about one run are about.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use egui::Color32;

use crate::runs::Recording;

use super::palette;

/// Runs that are drawn together before anybody chooses.
const SHOWN_AT_FIRST: usize = 10;

/// What was chosen about runs.
#[derive(Default)]
pub(super) struct Selection {
    runs: HashMap<PathBuf, Chosen>,
    focus: Option<PathBuf>,
}

struct Chosen {
    color: Color32,
    shown: bool,
}

impl Selection {
    /// Takes in runs that were not there before; the one in focus may be gone.
    pub(super) fn follow(&mut self, runs: &[Recording]) {
        for run in runs {
            if !self.runs.contains_key(&run.folder) {
                let number = self.runs.len();
                let chosen = Chosen { color: palette::color(number), shown: number < SHOWN_AT_FIRST };
                self.runs.insert(run.folder.clone(), chosen);
            }
        }
        if !self.focus.as_ref().is_some_and(|focus| runs.iter().any(|run| run.folder == *focus)) {
            self.focus = runs.last().map(|run| run.folder.clone());
        }
    }

    /// The run's colour.
    pub(super) fn color(&self, run: &Path) -> Color32 {
        self.runs.get(run).map_or(Color32::GRAY, |chosen| chosen.color)
    }

    /// Gives the run another colour.
    pub(super) fn set_color(&mut self, run: &Path, color: Color32) {
        if let Some(chosen) = self.runs.get_mut(run) {
            chosen.color = color;
        }
    }

    /// True if the run is drawn.
    pub(super) fn is_shown(&self, run: &Path) -> bool {
        self.runs.get(run).is_some_and(|chosen| chosen.shown)
    }

    /// Draws the run, or not.
    pub(super) fn show(&mut self, run: &Path, shown: bool) {
        if let Some(chosen) = self.runs.get_mut(run) {
            chosen.shown = shown;
        }
    }

    /// Draws this run alone.
    pub(super) fn show_only(&mut self, run: &Path) {
        for (folder, chosen) in &mut self.runs {
            chosen.shown = folder == run;
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
