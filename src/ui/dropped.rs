//! Files and folders that were dropped on the window, or opened by their paths, and what was made of them.

use std::path::{Path, PathBuf};

use egui::{Align2, Color32, Context, FontId, Id, LayerId, Order, Ui};

use crate::runs::find;

use super::Page;
use super::later::Later;
use super::text::Text;
use super::window::Seen;

/// What should be told, until somebody has read it.
#[derive(Default)]
pub(super) struct Notices(Option<Notice>);

enum Notice {
    Said(String),
    /// How many runs there are in a folder, which may be a large one.
    Looking(PathBuf, Later<usize>),
}

impl Notices {
    pub(super) fn say(&mut self, words: String) {
        self.0 = Some(Notice::Said(words));
    }

    /// Tells how many runs there are in `folder`.
    pub(super) fn look_for_runs(&mut self, context: &Context, folder: &Path) {
        let root = folder.to_owned();
        let count = Later::start(context, move || Ok(find(&root).len()));
        self.0 = Some(Notice::Looking(folder.to_owned(), count));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The notice, on the line that is under way.
    pub(super) fn ui(&mut self, ui: &mut Ui, text: Text) {
        let Some(notice) = &self.0 else { return };
        let read = ui.small_button("×").accessible_name(text.t("close")).clicked();
        ui.add(egui::Label::new(notice.in_words(text)).truncate());
        if read {
            self.0 = None;
        }
    }
}

impl Notice {
    fn in_words(&self, text: Text) -> String {
        let (folder, count) = match self {
            Self::Said(words) => return words.clone(),
            Self::Looking(folder, count) => (folder.display(), count.get()),
        };
        match &*count {
            None => text.f("looking for runs in {}", &[&folder]),
            Some(Err(error)) => format!("{folder}: {error}"),
            Some(Ok(0)) => text.f(
                "There is no run in {} yet. Pictures to train on are dropped on the page Start, or given there as folder:PATH.",
                &[&folder],
            ),
            Some(Ok(count)) => text.f("{} runs in {} are listed", &[count, &folder]),
        }
    }
}

/// What is to be done with what was dropped on a page that takes no files of its own: folders are looked at for runs,
/// files are left, for the model to judge.
pub(super) fn sorted(seen: &mut Seen<'_>, dropped: &[PathBuf]) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) = dropped.iter().cloned().partition(|path| path.is_dir());
    seen.asks.roots.extend(folders);
    if files.is_empty() {
        return files;
    }
    if seen.selection.focus(seen.runs).is_none() {
        seen.asks.notice =
            Some(seen.text.t("A picture is judged by the run that is chosen, and there is none").to_owned());
        return Vec::new();
    }
    seen.settings.page = Page::Predictions;
    files
}

/// While files are held over the window: what dropping them would do.
pub(super) fn hint(ui: &Ui, seen: &Seen<'_>) {
    if ui.input(|input| input.raw.hovered_files.is_empty()) {
        return;
    }
    let text = match seen.settings.page {
        Page::Start => seen.text.t("Drop a folder of pictures to train on"),
        _ => seen.text.t("Drop a folder of runs to look at, or a picture to have it judged"),
    };
    let area = ui.ctx().content_rect();
    let painter = ui.ctx().layer_painter(LayerId::new(Order::Foreground, Id::unique("drop")));
    painter.rect_filled(area, 0.0, Color32::from_black_alpha(190));
    painter.text(area.center(), Align2::CENTER_CENTER, text, FontId::proportional(26.0), Color32::WHITE);
}
