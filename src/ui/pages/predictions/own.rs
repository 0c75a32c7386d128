//! Pictures of one's own, judged by the weights that a run saved last.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use egui::{Color32, ColorImage, Grid, Rect, ScrollArea, TextureHandle, TextureOptions, Ui, Vec2, pos2};
use parking_lot::Mutex;

use crate::runs::Recording;
use crate::train::{PredictedPicture, Predictor};

use crate::ui::palette;
use crate::ui::path_field::PathField;
use crate::ui::session::Session;
use crate::ui::text::Text;

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
    result: Result<(PredictedPicture, Vec<String>), String>,
    textures: Option<[TextureHandle; 2]>,
}

impl OwnPictures {
    /// Has these pictures judged by `run`, which saves first if it goes on in this process.
    pub(super) fn judge(&self, run: &Recording, session: Option<&Session>, paths: &[PathBuf]) {
        let is_own = |session: &&Session| session.is_running() && session.known().folder.as_ref() == Some(&run.folder);
        let save = session.filter(is_own).map(Session::saving);
        let (folder, name, paths) = (run.folder.clone(), run.name.clone(), paths.to_vec());
        let judged = Arc::clone(&self.judged);
        judged.lock().under_way += paths.len();
        std::thread::spawn(move || {
            let saved = save.map_or(Ok(()), |save| save());
            let opened = saved.and_then(|()| Predictor::open(&folder, Some("cpu")).map_err(|error| error.to_string()));
            for path in paths {
                let result = match &opened {
                    Ok(predictor) => predictor
                        .predict_file(&path)
                        .map(|predicted| (predicted, predictor.classes().to_vec()))
                        .map_err(|error| error.to_string()),
                    Err(error) => Err(error.clone()),
                };
                let mut judged = judged.lock();
                judged.under_way -= 1;
                judged.pictures.insert(0, Shown { path, run: name.clone(), result, textures: None });
            }
        });
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
                ui.colored_label(palette::BAD, error);
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
                for (class, part) in &predicted.prediction.likeliest {
                    ui.label(class_name(classes, *class));
                    ui.add(egui::ProgressBar::new(*part).desired_width(160.0));
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
    [picture, mask].map(|image| ui.ctx().load_texture("own picture", image, TextureOptions::NEAREST))
}
