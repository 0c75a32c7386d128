//! Pictures and masks of samples as textures.

use std::time::{Duration, Instant};

use egui::{Color32, ColorImage, Context, Rect, TextureHandle, Ui, pos2};

use crate::colors;
use crate::data::IGNORED;
use crate::error::{Error, Result};
use crate::runs::Recording;
use crate::train::record::{Predictions, Sheet};

use crate::ui::palette;
use crate::ui::texture::texture;

/// How often files are tried again that could not be read.
const AGAIN: Duration = Duration::from_secs(1);

/// The sheets of one run, as they were when they were last looked at.
#[derive(Default)]
pub(super) struct Sheets {
    /// [`Recording::predictions_version`].
    of: Option<u64>,
    pictures: Option<Texture>,
    masks: Option<[Texture; 2]>,
    /// What is wrong with their files.
    problem: Option<String>,
    /// When to try again, if a file could not be read.
    again: Option<Instant>,
}

struct Texture {
    handle: TextureHandle,
    sheet: Sheet,
    size: [f32; 2],
}

impl Sheets {
    /// Reads the files again if there are new ones; what is wrong with them, if something is.
    pub(super) fn follow(&mut self, context: &Context, run: &Recording, said: &Predictions) -> Option<&str> {
        let now = Some(run.predictions_version);
        if self.of != now {
            *self = Self { of: now, ..Self::default() };
        } else if self.again.is_none_or(|again| Instant::now() < again) {
            return self.problem.as_deref();
        }
        (self.problem, self.again) = (None, None);
        let mut texture = |sheet: &Sheet, colored: bool| match load(context, run, sheet, colored) {
            Ok(texture) => Some(texture),
            Err(error) => {
                if matches!(error, Error::Io { .. }) {
                    self.again = Some(Instant::now() + AGAIN);
                    context.request_repaint_after(AGAIN);
                }
                self.problem = Some(error.to_string());
                None
            }
        };
        if self.pictures.is_none() {
            self.pictures = said.pictures.as_ref().and_then(|sheet| texture(sheet, false));
        }
        if self.masks.is_none() {
            self.masks = said.masks.as_ref().and_then(|[of, said]| Some([texture(of, true)?, texture(said, true)?]));
        }
        self.problem.as_deref()
    }

    /// Draws the picture of this sample; false if there is none.
    pub(super) fn picture(&self, ui: &Ui, place: Rect, number: usize) -> bool {
        self.pictures.as_ref().is_some_and(|texture| {
            texture.draw(ui, place, number, Color32::WHITE);
            true
        })
    }

    /// Draws the mask of this sample, the true one or the model's, over its picture.
    pub(super) fn mask(&self, ui: &Ui, place: Rect, number: usize, which: usize, opacity: f32) {
        if let Some(masks) = &self.masks {
            masks[which].draw(ui, place, number, Color32::WHITE.gamma_multiply(opacity));
        }
    }
}

impl Texture {
    fn draw(&self, ui: &Ui, place: Rect, number: usize, tint: Color32) {
        let Sheet { height, width, columns, .. } = self.sheet;
        let corner = |row: usize, column: usize| {
            pos2((column * width) as f32 / self.size[0], (row * height) as f32 / self.size[1])
        };
        let (row, column) = (number / columns, number % columns);
        let part = Rect::from_min_max(corner(row, column), corner(row + 1, column + 1));
        ui.painter().image(self.handle.id(), place, part, tint);
    }
}

fn load(context: &Context, run: &Recording, sheet: &Sheet, colored: bool) -> Result<Texture> {
    let (width, height, rgb) = run.image_sheet(sheet)?;
    let pixels = rgb
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[r, g, b]| if colored { class_color(*r) } else { Color32::from_rgb(*r, *g, *b) });
    let image = ColorImage::new([width, height], pixels.collect());
    let name = format!("{}/{}", run.folder.display(), sheet.file);
    let handle = texture(context, name, image);
    Ok(Texture { handle, sheet: sheet.clone(), size: [width as f32, height as f32] })
}

/// The colour of a class in masks; what does not count is not seen.
pub(super) fn class_color(class: u8) -> Color32 {
    if class == IGNORED { Color32::TRANSPARENT } else { palette::rgb(colors::class_color(class)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_stays_until_it_is_mended() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = r#"{"step":1,"classes":[],"samples":[],
            "pictures":{"file":"pictures.png","height":2,"width":3,"columns":1}}"#;
        std::fs::write(folder.path().join("predictions.json"), text).expect("writable");
        let run = Recording::open(folder.path());
        let said = run.predictions.as_ref().expect("they were written");
        let (context, mut sheets) = (Context::default(), Sheets::default());
        for _ in 0..3 {
            let problem = sheets.follow(&context, &run, said).expect("there is no such file");
            assert!(problem.contains("pictures.png"), "{problem}");
        }
        image::GrayImage::new(3, 2).save(folder.path().join("pictures.png")).expect("writable");
        assert!(sheets.follow(&context, &run, said).is_some(), "it is tried once a second");
        sheets.again = Some(Instant::now());
        assert_eq!(sheets.follow(&context, &run, said), None);
        assert!(sheets.pictures.is_some());
        // damaged, it is not read again before it is written again
        std::fs::write(folder.path().join("pictures.png"), "no picture").expect("writable");
        let run = Recording::open(folder.path());
        assert!(sheets.follow(&context, &run, said).is_some() && sheets.again.is_none());
        assert!(sheets.follow(&context, &run, said).is_some() && sheets.pictures.is_none());
    }
}
