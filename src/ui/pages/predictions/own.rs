//! Pictures of one's own, judged by the weights that a run saved last.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use egui::{Color32, ColorImage, Grid, Rect, ScrollArea, TextureHandle, Ui, Vec2, pos2};
use parking_lot::Mutex;

use crate::runs::Recording;
use crate::train::{PredictedPicture, Predictor};

use crate::ui::later::{caught, no_thread};
use crate::ui::numbers::number;
use crate::ui::palette;
use crate::ui::path_field::PathField;
use crate::ui::progress::progress;
use crate::ui::session::Session;
use crate::ui::text::Text;
use crate::ui::texture::texture;

use super::sheets::class_color;
use super::{class_name, mask_legend, opacity_slider};

/// Points.
const SIDE: f32 = 220.0;

/// What was dropped, and what the model says about it.
#[derive(Default)]
pub(super) struct OwnPictures {
    path: PathField,
    judged: Arc<Mutex<Judged>>,
}

#[derive(Default)]
struct Judged {
    under_way: usize,
    pictures: Vec<Shown>,
}

struct Shown {
    path: PathBuf,
    run: String,
    result: Verdict,
    textures: Option<[TextureHandle; 2]>,
}

/// What the model says, and the names of its classes.
type Verdict = Result<(PredictedPicture, Vec<String>), String>;

/// Pictures that are under way until this is dropped, whatever comes in between.
struct UnderWay {
    judged: Arc<Mutex<Judged>>,
    /// The run that judges.
    run: String,
    left: Vec<PathBuf>,
}

impl UnderWay {
    fn new(judged: &Arc<Mutex<Judged>>, run: &str, paths: &[PathBuf]) -> Self {
        judged.lock().under_way += paths.len();
        // they are taken from the end
        let left = paths.iter().rev().cloned().collect();
        Self { judged: Arc::clone(judged), run: run.to_owned(), left }
    }

    /// Has the pictures judged one by one.
    fn judge(mut self, mut verdict: impl FnMut(&Path) -> Verdict) {
        while let Some(path) = self.left.last() {
            let result = verdict(path);
            let mut judged = self.judged.lock();
            if let Some(path) = self.left.pop() {
                judged.under_way -= 1;
                judged.pictures.insert(0, Shown { path, run: self.run.clone(), result, textures: None });
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.judged.lock().under_way -= self.left.len();
    }
}

impl OwnPictures {
    /// Has these pictures judged by `run`, which saves first if it goes on in this process.
    pub(super) fn judge(&self, run: &Recording, session: Option<&Session>, paths: &[PathBuf]) {
        let is_own = |session: &&Session| session.is_running() && session.known().is(run);
        let save = session.filter(is_own).map(Session::saving);
        let folder = run.folder.clone();
        let under_way = UnderWay::new(&self.judged, &run.name, paths);
        let work = move || {
            let opened = caught(|| {
                save.map_or(Ok(()), |save| save())?;
                Predictor::open(&folder, Some("cpu")).map_err(|error| error.to_string())
            });
            under_way.judge(|path| {
                let predictor = opened.as_ref().map_err(String::clone)?;
                let predicted = caught(|| predictor.predict_file(path).map_err(|error| error.to_string()))?;
                Ok((predicted, predictor.classes().to_vec()))
            });
        };
        if let Err(error) = std::thread::Builder::new().spawn(work) {
            UnderWay::new(&self.judged, &run.name, paths).judge(|_| Err(no_thread(&error)));
        }
    }

    /// Draws the page; returns a picture that is to be judged, too.
    pub(super) fn ui(&mut self, ui: &mut Ui, text: Text, run: &Recording, opacity: &mut f32) -> Option<PathBuf> {
        let mut judged = self.judged.lock();
        let mut asked = None;
        ui.horizontal_wrapped(|ui| {
            asked = self.path.ui(ui, text, text.t("picture"));
            if judged.pictures.iter().any(Shown::has_mask) {
                ui.separator();
                opacity_slider(ui, text, opacity);
            }
            if judged.under_way > 0 {
                ui.spinner();
                ui.label(text.t("looking at your pictures"));
                ui.ctx().request_repaint_after(Duration::from_millis(100));
            }
        });
        if judged.pictures.is_empty() {
            let hint = text.f("Drop a picture on the window, or open one: {} says what it is", &[&run.name]);
            super::super::nothing(ui, &hint);
            return asked;
        }
        ScrollArea::vertical().auto_shrink([false, false]).show(ui, |ui| {
            for shown in &mut judged.pictures {
                shown.ui(ui, text, *opacity);
                ui.separator();
            }
        });
        asked
    }
}

impl Shown {
    fn has_mask(&self) -> bool {
        self.result.as_ref().is_ok_and(|(predicted, _)| !predicted.prediction.mask.is_empty())
    }

    fn ui(&mut self, ui: &mut Ui, text: Text, opacity: f32) {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        ui.horizontal(|ui| {
            ui.strong(&name).on_hover_text(self.path.display().to_string());
            ui.weak(text.f("by {}", &[&self.run]));
        });
        let (predicted, classes) = match &self.result {
            Ok(judged) => judged,
            Err(error) => {
                ui.colored_label(palette::readable(ui, palette::BAD), error);
                return;
            }
        };
        if !predicted.prediction.mask.is_empty() {
            mask_legend(ui, text, classes);
        }
        let textures = self.textures.get_or_insert_with(|| textures(ui, predicted));
        ui.horizontal(|ui| {
            let (place, response) = ui.allocate_exact_size(Vec2::splat(SIDE), egui::Sense::hover());
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &name));
            let whole = Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0));
            ui.painter().image(textures[0].id(), place, whole, Color32::WHITE);
            ui.painter().image(textures[1].id(), place, whole, Color32::WHITE.gamma_multiply(opacity));
            Grid::new(("own", &self.path)).num_columns(3).show(ui, |ui| {
                for (name, &value) in classes.iter().zip(&predicted.prediction.numbers) {
                    ui.label(name);
                    ui.monospace(number(value.into(), value.into()));
                    ui.end_row();
                }
                for (class, part) in &predicted.prediction.likeliest {
                    ui.label(class_name(classes, *class));
                    progress(ui, *part, 160.0, ui.visuals().selection.bg_fill)
                        .accessible_name(class_name(classes, *class));
                    ui.monospace(format!("{:>5.1} %", 100.0 * part));
                    ui.end_row();
                }
            });
        });
    }
}

/// The picture as the model saw it, and its mask, which is not seen if there is none.
fn textures(ui: &Ui, predicted: &PredictedPicture) -> [TextureHandle; 2] {
    let [width, height] = [predicted.width, predicted.height];
    let colors = predicted.pixels.as_chunks::<3>().0.iter().map(|[r, g, b]| Color32::from_rgb(*r, *g, *b));
    let picture = ColorImage::new([width, height], colors.collect());
    let mask = match &predicted.prediction.mask[..] {
        [] => ColorImage::new([1, 1], vec![Color32::TRANSPARENT]),
        mask => ColorImage::new([width, height], mask.iter().map(|class| class_color(*class)).collect()),
    };
    [picture, mask].map(|image| texture(ui.ctx(), "own picture", image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_no_picture_under_way() {
        let judged = Arc::new(Mutex::new(Judged::default()));
        let paths = ["a", "b", "c"].map(PathBuf::from);
        let under_way = UnderWay::new(&judged, "run", &paths);
        assert_eq!(judged.lock().under_way, 3);
        let work = move || {
            under_way.judge(|path| if path == Path::new("b") { panic!("on purpose") } else { Err("wrong".into()) });
            Ok(())
        };
        assert!(caught(work).is_err());
        let judged = judged.lock();
        assert_eq!(judged.under_way, 0);
        assert_eq!(judged.pictures.iter().map(|shown| &shown.path).collect::<Vec<_>>(), [&paths[0]]);
    }
}
